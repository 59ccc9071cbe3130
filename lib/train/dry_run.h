#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "config/tree.h"
#include "train/train_config.h"

namespace verlcpp::train {

/// What --dry-run prints after the banner: the layout table, memory of one rank, and the schedule
/// of one mini-batch in the worst case (every sequence as long as can be) and for evenly spread
/// lengths. Touches no device. Expects a validated configuration.
std::string dry_run_report(const TrainConfig& config);

/// `count` lengths spread evenly over 1/count, 2/count, ... of `longest` (at least 2: one prompt
/// and one response token).
std::vector<int64_t> spread_lengths(int64_t count, int64_t longest);

}  // namespace verlcpp::train
