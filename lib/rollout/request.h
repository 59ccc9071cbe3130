#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace verlcpp::rollout {

/// One response to make. (step, sample, response, position) is the random counter of each token, so
/// a response does not depend on which rank makes it or what else is being decoded. Requests of one
/// sample that follow each other share their prompt's KV.
struct Request {
  uint32_t sample = 0;    // row of the data set
  uint32_t response = 0;  // 0..n-1
  std::span<const int32_t> prompt_ids;
};

struct Response {
  std::vector<int32_t> ids;
  std::vector<double> log_probs;  // of the sampled tokens, at the sampling temperature
};

}  // namespace verlcpp::rollout
