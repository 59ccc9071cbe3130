#pragma once

#include <functional>
#include <string>
#include <vector>

#include "train/busy_meter.h"
#include "train/cost_file.h"
#include "train/engine.h"
#include "train/inputs.h"

// Measures what micro-batches of a configuration cost on its device and fits the cost model.

namespace verlcpp::train {

/// Lengths of sequences that the fitted model is held against.
struct CheckedLengths {
  std::string file;
  std::vector<int64_t> lengths;
};

struct CalibrateOptions {
  std::vector<CheckedLengths> checks;
  int64_t repeats = 3;                           // of each timing; the median counts
  std::function<double()> clock = wall_seconds;  // seconds, read on every rank's thread
};

/// Times micro-batches of random tokens, forward and backward and forward alone, on the weights
/// that a run would begin with: documents of equal lengths up to what a group holds (group_limit),
/// in groups of every size that dynamic CP may form (group_sizes). Of a document as large a share
/// is prompt as data.max_prompt_length is of the longest sequence. A micro-batch's time is what two
/// more of it add to one, on the slowest rank. Every rank calls it; rank 0's result is the one to
/// keep. Times that do not grow with the tokens are measured again and more often; then
/// ConfigError. A model that is far off from the times it was fitted to is warned of.
Calibration calibrate(const Engine& engine, const TrainConfig& config, const Inputs& inputs,
                      const CalibrateOptions& options);

/// Throws ConfigError when a rank cannot hold the shortest document that is measured, or when one
/// of the lengths is more than the run's longest sequence or than the actor's batching rule takes.
void expect_fits(const TrainConfig& config, const std::vector<CheckedLengths>& checks);

}  // namespace verlcpp::train
