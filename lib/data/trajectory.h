#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace verlcpp::data {

/// A named value beside a reward: verl's reward_extra_info (acc, pred, score, overlong, ...).
struct RewardExtra {
  std::string name;
  std::string json;              // the value as JSON text
  std::optional<double> number;  // a number, or a truth value as 0 or 1
};

/// One prompt with one generated response: what the rollout makes and the update learns from.
struct Trajectory {
  std::string uid;  // one per prompt and epoch; the GRPO group
  std::string data_source;
  std::vector<int32_t> prompt_ids;     // at least one token
  std::vector<int32_t> response_ids;   // at least one token
  std::vector<uint8_t> response_mask;  // 1 = trainable; same size as response_ids
  double reward = 0;                   // sequence score, placed on the last response token
  std::vector<RewardExtra> reward_extras = {};
  std::vector<double> rollout_log_probs;  // empty, or one per response token
  double temperature = 1;

  int64_t prompt_length() const { return static_cast<int64_t>(prompt_ids.size()); }
  int64_t response_length() const { return static_cast<int64_t>(response_ids.size()); }
  int64_t length() const { return prompt_length() + response_length(); }
};

}  // namespace verlcpp::data
