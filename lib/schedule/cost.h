#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "schedule/plan.h"

namespace verlcpp::schedule {

/// Work of a sequence of L tokens: linear L (projections, feed-forward) + quadratic L^2 (causal
/// attention). Only ratios count, so the unit is free. The default is verl's workload(), whose
/// 24576 stands for a model of hidden size 4096.
struct CostModel {
  double linear = 24576;
  double quadratic = 1;
};

/// Work of one rank of a CP group of `cp` for one sequence: padded rows and the zigzag share of its
/// attention. A model: transfers and short shards that do not split evenly are not in it.
double rank_cost(const CostModel& model, int64_t length, int64_t tp, int64_t cp);

/// Work of every pool rank over all micro-batches of a plan.
std::vector<double> rank_costs(const CostModel& model, const Plan& plan,
                               std::span<const int64_t> lengths, int64_t tp);

/// Largest over mean: 1 is perfect balance, the number of ranks is one rank doing everything. 1 for
/// no work at all.
double imbalance(std::span<const double> work);

}  // namespace verlcpp::schedule
