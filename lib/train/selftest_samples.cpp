#include "train/selftest_samples.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/rng.h"
#include "parallel/thread_ranks.h"
#include "train/initial_weights.h"
#include "train/pipeline.h"

namespace verlcpp::train {
namespace {

constexpr int64_t kPrompts = 4, kResponses = 4;
constexpr int64_t kPromptTokens = 64, kRecordedTokens = 64, kGeneratedTokens = 32;

void cut_response(data::Trajectory& t, size_t length) {
  const auto shorten = [length](auto& values) {
    if (values.size() > length) values.resize(length);
  };
  shorten(t.response_ids);
  shorten(t.response_mask);
  shorten(t.rollout_log_probs);
}

/// Keeps the end of the prompt and the beginning of the response, where the two meet.
void cut(std::vector<data::Trajectory>& batch, int64_t response_tokens) {
  for (data::Trajectory& t : batch) {
    const int64_t extra = t.prompt_length() - kPromptTokens;
    if (extra > 0) t.prompt_ids.erase(t.prompt_ids.begin(), t.prompt_ids.begin() + extra);
    cut_response(t, static_cast<size_t>(response_tokens));
  }
}

/// The first rows of the first groups, in order of appearance.
std::vector<data::Trajectory> first_groups(std::vector<data::Trajectory> step, int64_t prompts,
                                           int64_t n) {
  std::vector<std::string> uids;
  std::map<std::string, std::vector<data::Trajectory>> groups;
  for (data::Trajectory& t : step) {
    if (!groups.contains(t.uid)) uids.push_back(t.uid);
    groups[t.uid].push_back(std::move(t));
  }
  std::vector<data::Trajectory> batch;
  for (size_t g = 0; g < static_cast<size_t>(prompts); ++g) {
    const auto& group = groups.at(uids[g]);
    batch.insert(batch.end(), group.begin(), group.begin() + n);
  }
  return batch;
}

/// `config` has the small sizes and one rank.
std::vector<data::Trajectory> generated(const TrainConfig& config, const Inputs& inputs,
                                        const parallel::MakeDevice& make_device) {
  std::vector<data::Trajectory> batch;
  const MegatronConfig& megatron = config.actor_rollout_ref.actor.megatron;
  const DType dtype = dtype_named(megatron.dtype).value();
  parallel::run_thread_ranks(
      {}, [&](const parallel::Topology& topology, parallel::RankCommunicators comm) {
        const parallel::RankDevice device = make_device(topology, comm);
        Backend& backend = *device.backend;
        const model::Transformer transformer =
            make_transformer(backend, inputs.model, dtype, config.actor_rollout_ref, device.comm);
        const model::ParameterLayout layout(inputs.model, 1);
        const model::ParameterBuffer weights(backend, layout, dtype, MemoryTag::kWeights);
        load_initial_weights(backend, config, inputs, weights);
        const Engine engine{backend, transformer, topology, device.comm};
        batch = rollout_batch(engine, weights, config, inputs, 0).value();
        score_batch(engine, config, inputs, 0, batch);
      });
  return batch;
}

TrainConfig small_rollout(const TrainConfig& config, int64_t prompts, int64_t n) {
  TrainConfig small = config;
  small.data.train_batch_size = prompts;
  small.actor_rollout_ref.actor.megatron.tensor_model_parallel_size = 1;
  RolloutConfig& rollout = small.actor_rollout_ref.rollout;
  rollout.n = n;
  rollout.response_length = std::min(rollout.response_length, kGeneratedTokens);
  return small;
}

std::string lengths_text(std::span<const data::Trajectory> batch) {
  const auto [shortest, longest] = std::minmax_element(
      batch.begin(), batch.end(), [](const data::Trajectory& a, const data::Trajectory& b) {
        return a.response_length() < b.response_length();
      });
  return fmt::format("{} to {} tokens", shortest->response_length(), longest->response_length());
}

}  // namespace

bool vary_lengths(std::vector<data::Trajectory>& batch) {
  const int64_t length = batch.front().response_length();
  const bool equal = std::all_of(batch.begin(), batch.end(), [length](const data::Trajectory& t) {
    return t.response_length() == length;
  });
  if (!equal || length == 1) return false;
  for (size_t i = 0; i < batch.size(); ++i) {
    const auto share = static_cast<int64_t>(i % 4);
    cut_response(batch[i], static_cast<size_t>(length - length * share / 4));
  }
  return true;
}

bool vary_rewards(std::vector<data::Trajectory>& batch) {
  std::map<std::string, double> first;
  for (const data::Trajectory& t : batch) {
    if (first.emplace(t.uid, t.reward).first->second != t.reward) return false;
  }
  for (size_t i = 0; i < batch.size(); ++i) {
    batch[i].reward = uniform_open(philox4x32({static_cast<uint32_t>(i)}, {7, 7})[0]);
  }
  return true;
}

SelftestSamples selftest_samples(const TrainConfig& config, const Inputs& inputs,
                                 const parallel::MakeDevice& make_device) {
  SelftestSamples s;
  s.prompts = std::min(config.data.train_batch_size, kPrompts);
  s.n = std::min(config.actor_rollout_ref.rollout.n, kResponses);
  std::string changes;
  if (inputs.recorded) {
    s.batch = first_groups(inputs.recorded->step(0), s.prompts, s.n);
    s.about = "recorded in " + *config.actor_rollout_ref.rollout.replay_path;
    cut(s.batch, kRecordedTokens);
  } else {
    s.batch = generated(small_rollout(config, s.prompts, s.n), inputs, make_device);
    s.about = "of a rollout of the initial weights";
    cut(s.batch, kGeneratedTokens);
  }
  if (vary_lengths(s.batch)) changes += ", cut to several lengths";
  if (vary_rewards(s.batch)) changes += ", rewards drawn, since every group had equal ones";
  s.about = fmt::format("{} samples ({} prompts x {} responses of {}) {}{}", s.batch.size(),
                        s.prompts, s.n, lengths_text(s.batch), s.about, changes);
  return s;
}

}  // namespace verlcpp::train
