#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "train/inputs.h"
#include "train/train_config.h"

namespace verlcpp::train {

/// What --dry-run prints after the banner: the model, the layout table, memory of one rank, and the
/// schedule of one mini-batch in the worst case (every sequence as long as can be) and for the
/// first mini-batch's own lengths. Touches no device. Expects a validated configuration and its
/// inputs.
std::string dry_run_report(const TrainConfig& config, const Inputs& inputs);

/// Lengths of a first mini-batch: of the recorded trajectories, or of the prompts as the file has
/// them, each with rollout.n responses spread evenly from short to max_response_length.
std::vector<int64_t> first_lengths(const TrainConfig& config, const Inputs& inputs);

}  // namespace verlcpp::train
