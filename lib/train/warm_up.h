#pragma once

#include <cstdint>
#include <span>

#include "data/trajectory.h"
#include "train/engine.h"

namespace verlcpp::train {

/// Before the passes of a run's first step: makes attention ready for every micro-batch of the
/// first plan of each pass (of the update: of its first mini-batch), so that no rank of a CP group
/// waits inside a micro-batch while another builds what it needs. Later plans that need more build
/// it when they meet it, and so does the rollout. `batch` is the step's, in global order; `say`:
/// with a line about each pass that anything was built for.
void warm_up_attention(const Engine& engine, const TrainConfig& config,
                       std::span<const data::Trajectory> batch, int64_t step, bool say);

}  // namespace verlcpp::train
