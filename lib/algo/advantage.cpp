#include "algo/advantage.h"

#include <cmath>
#include <map>

#include "base/error.h"

namespace verlcpp::algo {

namespace {

constexpr double kEpsilon = 1e-6;

struct GroupStatistics {
  double mean = 0;
  double std = 1;
};

/// verl gives a group of one mean 0 and std 1, so that its advantage is its score.
GroupStatistics statistics(std::span<const double> scores, const std::vector<size_t>& members) {
  if (members.size() == 1) return {};
  const auto count = static_cast<double>(members.size());
  double sum = 0;
  for (size_t i : members) sum += scores[i];
  const double mean = sum / count;
  double squares = 0;
  for (size_t i : members) squares += (scores[i] - mean) * (scores[i] - mean);
  return {.mean = mean, .std = std::sqrt(squares / (count - 1))};
}

}  // namespace

std::vector<double> grpo_advantage(std::span<const double> scores,
                                   std::span<const std::string> groups, bool norm_by_std) {
  expects(scores.size() == groups.size(), "grpo_advantage: one group per score");
  std::map<std::string, std::vector<size_t>> members;
  for (size_t i = 0; i < groups.size(); ++i) members[groups[i]].push_back(i);
  std::vector<double> out(scores.size());
  for (const auto& [group, indices] : members) {
    const GroupStatistics group_statistics = statistics(scores, indices);
    const double scale = norm_by_std ? group_statistics.std + kEpsilon : 1.0;
    for (size_t i : indices) out[i] = (scores[i] - group_statistics.mean) / scale;
  }
  return out;
}

}  // namespace verlcpp::algo
