#pragma once

#include <cstdint>
#include <vector>

#include "schedule/plan.h"
#include "train/engine.h"

// The micro-batches that a calibration times.

namespace verlcpp::train {

inline constexpr int64_t kShortestTimed = 16;  // tokens of a document

/// A micro-batch to time: its groups, whose samples are indices into `lengths`.
struct CalibrationCase {
  schedule::MicroBatch micro_batch;
  std::vector<int64_t> lengths;
};

/// Tokens one rank may hold.
int64_t rank_limit(const TrainConfig& config, const BatchingRule& rule);

/// Every group of `cp` ranks holds the same documents.
CalibrationCase same_in_all_groups(int64_t pool, int64_t cp, const std::vector<int64_t>& documents);

/// Documents of equal lengths that fill a rank to its limit, half of it, a quarter and a sixteenth.
std::vector<std::vector<int64_t>> fillings(int64_t limit, int64_t cp, int64_t longest);

}  // namespace verlcpp::train
