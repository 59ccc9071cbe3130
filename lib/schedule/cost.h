#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "schedule/plan.h"

namespace verlcpp::schedule {

/// Time of one rank for its part of a micro-batch: a sum over what that part holds. Only ratios
/// count where nothing is told in seconds, so the unit is free. The default is verl's workload(),
/// 24576 L + L^2 for a sequence of L tokens, whose 24576 stands for a model of hidden size 4096;
/// fit_cost() makes one of measured times.
struct CostModel {
  double micro_batch = 0;  // a micro-batch at all: launches, work on the host
  double document = 0;     // each document
  double linear = 24576;   // each padded row of this rank: projections, feed-forward, head
  double quadratic = 1;    // each L^2 / cp: the zigzag share of causal attention
  double exchange = 0;     // each of the cp - 1 exchanges of K and V in a group of cp
  double exchanged = 0;    // each row of this rank in each of those

  /// In the order above, with the names that files use.
  static constexpr std::array<const char*, 6> kNames = {"micro_batch", "document", "linear",
                                                        "quadratic",   "exchange", "exchanged"};
  std::array<double, 6> terms() const {
    return {micro_batch, document, linear, quadratic, exchange, exchanged};
  }
  static CostModel of(const std::array<double, 6>& terms);

  bool operator==(const CostModel&) const = default;
};

/// How much of each term one rank of a CP group of `cp` has with these sequences; all zero without
/// any.
std::array<double, 6> cost_counts(std::span<const int64_t> lengths, int64_t tp, int64_t cp);

/// What one sequence adds to a rank of a CP group of `cp`.
double document_cost(const CostModel& model, int64_t length, int64_t tp, int64_t cp);
/// What a group of `cp` costs each of its ranks before any sequence.
double group_overhead(const CostModel& model, int64_t cp);
/// Time of a group with these samples; 0 without any.
double group_cost(const CostModel& model, const PlanGroup& group, std::span<const int64_t> lengths,
                  int64_t tp);

/// Work of every pool rank over all micro-batches of a plan, waits left out.
std::vector<double> rank_costs(const CostModel& model, const Plan& plan,
                               std::span<const int64_t> lengths, int64_t tp);

/// When the last rank is done with a plan: a group starts when the last of its ranks is free.
double makespan(const CostModel& model, const Plan& plan, std::span<const int64_t> lengths,
                int64_t tp);

/// Largest over mean: 1 is perfect balance, the number of ranks is one rank doing everything. 1 for
/// no work at all.
double imbalance(std::span<const double> work);

}  // namespace verlcpp::schedule
