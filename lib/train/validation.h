#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "model/parameters.h"
#include "train/engine.h"
#include "train/inputs.h"
#include "train/metrics.h"
#include "train/pipeline.h"

namespace verlcpp::train {

/// verl's validation on one rank: answers the prompts of data.val_files with the weights as they
/// are, scores the answers and sums them up. It changes nothing that training depends on, and its
/// numbers are the same at any layout.
class Validation {
 public:
  /// `reports`: this is rank 0, which scores and speaks. All must outlive it.
  Validation(const Engine& engine, const TrainConfig& config, const Inputs& inputs, bool reports);

  /// Whether there is one before training (trainer.val_before_train or val_only), and after `step`
  /// of `total_steps` steps (every trainer.test_freq, and after the last).
  bool before_training() const;
  bool after(int64_t step, int64_t total_steps) const;

  /// Called by all ranks, after `step` steps: the metrics on rank 0, an empty set on the others.
  /// Nothing: the ranks agreed to stop, and it was dropped. Dumps to trainer.validation_data_dir.
  std::optional<Metrics> run(const model::ParameterBuffer& weights, int64_t step) const;

 private:
  std::optional<std::vector<data::Trajectory>> answers(const model::ParameterBuffer& weights,
                                                       const RolloutSpec& spec) const;

  const Engine& engine_;
  const TrainConfig& config_;
  const Inputs& inputs_;
  bool reports_;
};

}  // namespace verlcpp::train
