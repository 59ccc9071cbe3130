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

/// How many rows of rollout.record_path a run keeps that goes on after `done_steps`; `recorded` is
/// what the checkpoint says of it. Warns of what the file will lack or lose. DataError for a file
/// that does not hold them, or holds others. Changes nothing.
int64_t kept_rows(const std::string& path, const std::optional<int64_t>& recorded,
                  int64_t done_steps, int64_t rows_per_step);

}  // namespace verlcpp::train
