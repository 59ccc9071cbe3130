#pragma once

#include <optional>
#include <span>
#include <vector>

#include "train/engine.h"

namespace verlcpp::train {

/// One number per response token: [sample][token].
using TokenValues = std::vector<std::vector<double>>;

struct LogProbs {
  TokenValues log_prob, entropy;
};

/// Forward only: log-probs and entropies of all response tokens at each trajectory's temperature.
/// Every rank of the pool ends with the whole result. Empty `plan` batches are not allowed. Nothing
/// when a stop was agreed on before one of its micro-batches.
std::optional<LogProbs> log_prob_pass(const Engine& engine, const model::ParameterBuffer& weights,
                                      std::span<const data::Trajectory> batch,
                                      const schedule::Plan& plan);

}  // namespace verlcpp::train
