#include "train/calibrate_cases.h"

#include <algorithm>

#include "train/validate.h"

namespace verlcpp::train {

int64_t rank_limit(const TrainConfig& config, const BatchingRule& rule) {
  if (rule.dcp) return rule.dcp->max_seqlen_per_rank;
  if (rule.use_dynamic_bsz) return rule.max_token_len_per_gpu;
  return (rule.micro_batch_size_per_gpu * longest_sequence(config) + rule.sizes.cp - 1) /
         rule.sizes.cp;
}

CalibrationCase same_in_all_groups(int64_t pool, int64_t cp,
                                   const std::vector<int64_t>& documents) {
  CalibrationCase c;
  for (int64_t first = 0; first < pool; first += cp) {
    schedule::PlanGroup& group = c.micro_batch.groups.emplace_back();
    for (int64_t rank = first; rank < first + cp; ++rank) {
      group.ranks.push_back(static_cast<int>(rank));
    }
    for (int64_t length : documents) {
      group.samples.push_back(static_cast<int>(c.lengths.size()));
      c.lengths.push_back(length);
    }
  }
  return c;
}

std::vector<std::vector<int64_t>> fillings(int64_t limit, int64_t cp, int64_t longest) {
  std::vector<std::vector<int64_t>> all;
  for (const int64_t share : {1, 2, 4, 16}) {
    const int64_t total = limit * cp / share;
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
