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

/// Ranks of the CP groups to time: divisors of the pool and powers of two, from the smallest group
/// that dynamic CP may form on.
std::vector<int64_t> group_sizes(const BatchingRule& rule);

/// Tokens a group of `cp` ranks holds at most: the limit of its ranks, and no more than its share
/// of a mini-batch of longest sequences (a longest sequence at least), however high the limit is.
int64_t group_limit(const TrainConfig& config, const BatchingRule& rule, int64_t cp);

/// Every group of `cp` ranks holds the same documents. Ranks that are left over are a group of one
/// shortest document, which is done before the others.
CalibrationCase same_in_all_groups(int64_t pool, int64_t cp, const std::vector<int64_t>& documents);

/// Documents of equal lengths that fill a group to `limit` tokens, half of it, a quarter and a
/// sixteenth.
std::vector<std::vector<int64_t>> fillings(int64_t limit, int64_t longest);

}  // namespace verlcpp::train
