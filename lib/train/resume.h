#pragma once

#include <functional>
#include <optional>
#include <string>

#include "train/checkpoint.h"
#include "train/train_config.h"

namespace verlcpp::train {

constexpr const char* kConfigFile = "config.yaml";

/// Rank 0's part of resuming: finds the checkpoint that resume_mode names, checks every byte of it
/// and that this run can go on from it; `now` is the run's own state before its first step.
/// Nothing: from scratch. `beat` is called while files are read. Changes nothing.
std::optional<std::string> find_checkpoint(const TrainConfig& config, const CheckpointState& now,
                                           const std::string& config_text,
                                           const std::function<void()>& beat);

}  // namespace verlcpp::train
