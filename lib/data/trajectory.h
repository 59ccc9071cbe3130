#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace verlcpp::data {

/// One prompt with one generated response: what the rollout makes and the update learns from.
struct Trajectory {
  std::string uid;  // one per prompt and epoch; the GRPO group
  std::string data_source;
  std::vector<int32_t> prompt_ids;        // at least one token
  std::vector<int32_t> response_ids;      // at least one token
  std::vector<uint8_t> response_mask;     // 1 = trainable; same size as response_ids
  double reward = 0;                      // sequence score, placed on the last response token
  std::vector<double> rollout_log_probs;  // empty, or one per response token
  double temperature = 1;

  int64_t prompt_length() const { return static_cast<int64_t>(prompt_ids.size()); }
  int64_t response_length() const { return static_cast<int64_t>(response_ids.size()); }
  int64_t length() const { return prompt_length() + response_length(); }
};

}  // namespace verlcpp::data
