#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "model/model_config.h"
#include "train/compare_arms.h"
#include "train/cost_file.h"

namespace verlcpp::train {

/// The costs that predictions of a comparison use: those of the actor's dynamic_cp_cost_model, or
/// where nothing was measured the operations of the model's layers (layer_cost), three times as
/// many in an update.
PassCosts compare_costs(const TrainConfig& config, const model::ModelConfig& model);

/// Work of the model's layers for a sequence: parameters of a layer's matrices against its causal
/// attention, in the same operations. The head, which only response tokens pass, is left out.
schedule::CostModel layer_cost(const model::ModelConfig& model);

/// A step's time on another number of GPUs: log-prob passes, mini-batches and what is between them.
struct PredictedStep {
  int64_t gpus = 0;
  int64_t cp = 0;               // of the static arms, and the pool of the dynamic ones
  int64_t limit = 0;            // tokens per rank
  std::vector<double> seconds;  // of each arm; in a free unit where nothing was measured
};

/// What the arms should take on 2, 4 and 8 GPUs of one node with these samples: static CP over all
/// of them, a pack of as many tokens as it is here, and so many tokens per rank as that leaves.
/// Sizes that tensor parallelism or the smallest CP group do not allow are left out.
std::vector<PredictedStep> predict_steps(std::span<const CompareArm> arms,
                                         std::span<const int64_t> lengths, const PassCosts& costs);

/// One arm's step as its own configuration says.
double predicted_step(const CompareArm& arm, std::span<const int64_t> lengths,
                      const PassCosts& costs);

}  // namespace verlcpp::train
