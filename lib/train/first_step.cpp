#include "train/first_step.h"

#include <algorithm>

#include "train/engine.h"

namespace verlcpp::train {

std::vector<int64_t> first_step_lengths(const TrainConfig& config, const Inputs& inputs,
                                        std::optional<int64_t> response_length) {
  if (inputs.recorded) return lengths_of(inputs.recorded->step(0));
  std::vector<int64_t> lengths;
  if (inputs.prompt_ids.empty()) return lengths;
  const DataConfig& d = config.data;
  const int64_t n = config.actor_rollout_ref.rollout.n;
  const int64_t longest = config.actor_rollout_ref.rollout.response_length;
  const int64_t mini_batch = config.actor_rollout_ref.actor.ppo_mini_batch_size * n;
  const data::PromptOrder order(static_cast<int64_t>(inputs.prompt_ids.size()), d.train_batch_size,
                                d.shuffle, static_cast<uint64_t>(d.seed.value_or(0)));
  for (const int64_t row : order.indices(0)) {
    const auto prompt = static_cast<int64_t>(inputs.prompt_ids[static_cast<size_t>(row)].size());
    for (int64_t response = 0; response < n; ++response) {
      const int64_t place = static_cast<int64_t>(lengths.size()) % mini_batch + 1;
      const int64_t spread = std::max<int64_t>(1, longest * place / mini_batch);
      lengths.push_back(prompt + response_length.value_or(spread));
    }
  }
  return lengths;
}

TrainConfig with_responses(const TrainConfig& config, const Inputs& inputs,
                           int64_t response_length) {
  TrainConfig assumed = config;
  assumed.data.max_response_length = response_length;
  assumed.actor_rollout_ref.rollout.response_length = response_length;
  size_t longest = 0;
  for (const auto* prompts : {&inputs.prompt_ids, &inputs.validation.ids}) {
    for (const auto& prompt : *prompts) longest = std::max(longest, prompt.size());
  }
  if (longest > 0) {
    assumed.data.max_prompt_length = static_cast<int64_t>(longest);
    assumed.actor_rollout_ref.rollout.prompt_length = assumed.data.max_prompt_length;
  }
  return assumed;
}

}  // namespace verlcpp::train
