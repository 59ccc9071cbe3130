#include "schedule/cost.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"

namespace verlcpp::schedule {

CostModel CostModel::of(const std::array<double, 6>& terms) {
  return {terms[0], terms[1], terms[2], terms[3], terms[4], terms[5]};
}

std::array<double, 6> cost_counts(std::span<const int64_t> lengths, int64_t tp, int64_t cp) {
  if (lengths.empty()) return {};
  const auto ranks = static_cast<double>(cp);
  std::array<double, 6> counts = {1, static_cast<double>(lengths.size()), 0, 0, ranks - 1, 0};
  for (int64_t length : lengths) {
    const double rows = static_cast<double>(padded_length(length, tp, cp)) / ranks;
    const auto tokens = static_cast<double>(length);
    counts[2] += rows;
    counts[3] += tokens * tokens / ranks;
    counts[5] += rows * (ranks - 1);
  }
  return counts;
}

double document_cost(const CostModel& model, int64_t length, int64_t tp, int64_t cp) {
  const auto ranks = static_cast<double>(cp), tokens = static_cast<double>(length);
  const double rows = static_cast<double>(padded_length(length, tp, cp)) / ranks;
  return model.document + (model.linear + model.exchanged * (ranks - 1)) * rows +
         model.quadratic * tokens * tokens / ranks;
}

double group_overhead(const CostModel& model, int64_t cp) {
  return model.micro_batch + model.exchange * static_cast<double>(cp - 1);
}

double group_cost(const CostModel& model, const PlanGroup& group, std::span<const int64_t> lengths,
                  int64_t tp) {
  if (group.samples.empty()) return 0;
  const auto cp = static_cast<int64_t>(group.ranks.size());
  double sum = group_overhead(model, cp);
  for (int sample : group.samples) {
    sum += document_cost(model, lengths[static_cast<size_t>(sample)], tp, cp);
  }
  return sum;
}

std::vector<double> rank_costs(const CostModel& model, const Plan& plan,
                               std::span<const int64_t> lengths, int64_t tp) {
  std::vector<double> work(static_cast<size_t>(plan.pool), 0);
  for (const MicroBatch& micro_batch : plan.micro_batches) {
    for (const PlanGroup& group : micro_batch.groups) {
      const double mine = group_cost(model, group, lengths, tp);
      for (int rank : group.ranks) work[static_cast<size_t>(rank)] += mine;
    }
  }
  return work;
}

double makespan(const CostModel& model, const Plan& plan, std::span<const int64_t> lengths,
                int64_t tp) {
  std::vector<double> free(static_cast<size_t>(plan.pool), 0);
  for (const MicroBatch& micro_batch : plan.micro_batches) {
    for (const PlanGroup& group : micro_batch.groups) {
      double start = 0;
      for (int rank : group.ranks) start = std::max(start, free[static_cast<size_t>(rank)]);
      const double end = start + group_cost(model, group, lengths, tp);
      for (int rank : group.ranks) free[static_cast<size_t>(rank)] = end;
    }
  }
  return *std::max_element(free.begin(), free.end());
}

double imbalance(std::span<const double> work) {
  expects(!work.empty(), "imbalance of no ranks");
  const double sum = std::accumulate(work.begin(), work.end(), 0.0);
  if (sum <= 0) return 1;
  return *std::max_element(work.begin(), work.end()) * static_cast<double>(work.size()) / sum;
}

}  // namespace verlcpp::schedule
