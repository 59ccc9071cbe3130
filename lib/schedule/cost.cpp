#include "schedule/cost.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"

namespace verlcpp::schedule {

double rank_cost(const CostModel& model, int64_t length, int64_t tp, int64_t cp) {
  const auto rows = static_cast<double>(padded_length(length, tp, cp));
  const auto tokens = static_cast<double>(length);
  return (model.linear * rows + model.quadratic * tokens * tokens) / static_cast<double>(cp);
}

std::vector<double> rank_costs(const CostModel& model, const Plan& plan,
                               std::span<const int64_t> lengths, int64_t tp) {
  std::vector<double> work(static_cast<size_t>(plan.pool), 0);
  for (const MicroBatch& micro_batch : plan.micro_batches) {
    for (const PlanGroup& group : micro_batch.groups) {
      const auto cp = static_cast<int64_t>(group.ranks.size());
      double mine = 0;
      for (int sample : group.samples) {
        mine += rank_cost(model, lengths[static_cast<size_t>(sample)], tp, cp);
      }
      for (int rank : group.ranks) work[static_cast<size_t>(rank)] += mine;
    }
  }
  return work;
}

double imbalance(std::span<const double> work) {
  expects(!work.empty(), "imbalance of no ranks");
  const double sum = std::accumulate(work.begin(), work.end(), 0.0);
  if (sum <= 0) return 1;
  return *std::max_element(work.begin(), work.end()) * static_cast<double>(work.size()) / sum;
}

}  // namespace verlcpp::schedule
