#pragma once

#include "model/parameters.h"
#include "train/engine.h"

namespace verlcpp::train {

/// Sums a mini-batch's gradient over the ranks that hold parts of it: first what only some TP ranks
/// share or see a part of (TpKind), then everything over the DPxCP pool. Afterwards each rank holds
/// the whole of its TP rank's gradient, or, `sharded` (ZeRO-1), only its share of it.
void reduce_gradient(const Engine& engine, const model::ParameterBuffer& grad, bool sharded);

}  // namespace verlcpp::train
