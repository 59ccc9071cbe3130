#include "train/calibrate_cases.h"

#include <algorithm>
#include <bit>

#include "train/validate.h"

namespace verlcpp::train {

int64_t rank_limit(const TrainConfig& config, const BatchingRule& rule) {
  if (rule.dcp) return rule.dcp->max_seqlen_per_rank;
  if (rule.use_dynamic_bsz) return rule.max_token_len_per_gpu;
  return (rule.micro_batch_size_per_gpu * longest_sequence(config) + rule.sizes.cp - 1) /
         rule.sizes.cp;
}

std::vector<int64_t> group_sizes(const BatchingRule& rule) {
  const int64_t pool = rule.sizes.pool();
  std::vector<int64_t> sizes;
  for (int64_t cp = rule.dcp ? rule.dcp->min_cp : 1; cp <= pool; ++cp) {
    const bool power_of_two = std::has_single_bit(static_cast<uint64_t>(cp));
    if (pool % cp == 0 || power_of_two) sizes.push_back(cp);
  }
  return sizes;
}

int64_t group_limit(const TrainConfig& config, const BatchingRule& rule, int64_t cp) {
  const int64_t groups = std::max<int64_t>(rule.sizes.pool() / cp, 1);
  const int64_t samples =
      config.actor_rollout_ref.actor.ppo_mini_batch_size * config.actor_rollout_ref.rollout.n;
  const int64_t of_mini_batch = std::max<int64_t>(samples / groups, 1) * longest_sequence(config);
  return std::min(rank_limit(config, rule) * cp, of_mini_batch);
}

CalibrationCase same_in_all_groups(int64_t pool, int64_t cp,
                                   const std::vector<int64_t>& documents) {
  CalibrationCase c;
  for (int64_t first = 0; first < pool; first += cp) {
    const int64_t end = std::min(first + cp, pool);
    schedule::PlanGroup& group = c.micro_batch.groups.emplace_back();
    for (int64_t rank = first; rank < end; ++rank) group.ranks.push_back(static_cast<int>(rank));
    const bool whole = end - first == cp;
    for (int64_t length : whole ? documents : std::vector<int64_t>{kShortestTimed}) {
      group.samples.push_back(static_cast<int>(c.lengths.size()));
      c.lengths.push_back(length);
    }
  }
  return c;
}

std::vector<std::vector<int64_t>> fillings(int64_t limit, int64_t longest) {
  std::vector<std::vector<int64_t>> all;
  for (const int64_t share : {1, 2, 4, 16}) {
    const int64_t total = limit / share;
    for (const int64_t documents : {1, 4, 16, 64}) {
      const int64_t length = std::min(total / documents, longest);
      if (length < kShortestTimed) continue;
      std::vector<int64_t> lengths(static_cast<size_t>(total / length), length);
      if (std::find(all.begin(), all.end(), lengths) == all.end()) all.push_back(lengths);
    }
  }
  return all;
}

}  // namespace verlcpp::train
