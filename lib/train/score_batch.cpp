#include <nlohmann/json.hpp>
#include <span>

#include "base/error.h"
#include "train/pipeline.h"

namespace verlcpp::train {
namespace {

using Json = nlohmann::json;

/// Leaves the scoring, from within.
struct Stopped {};

/// Doubles read back to the same ones; texts are UTF-8.
std::string encode(std::span<const reward::Reward> rewards) {
  Json all = Json::array();
  for (const reward::Reward& reward : rewards) {
    Json extras = Json::array();
    for (const data::RewardExtra& extra : reward.extras) {
      extras.push_back({extra.name, extra.json, extra.number ? Json(*extra.number) : Json()});
    }
    all.push_back({reward.score, std::move(extras)});
  }
  return all.dump();
}

void decode(std::string_view text, std::vector<data::Trajectory>& batch) {
  const Json all = Json::parse(text);
  expects(all.size() == batch.size(), "one reward a response");
  for (size_t i = 0; i < batch.size(); ++i) {
    batch[i].reward = all[i][0].get<double>();
    for (const Json& extra : all[i][1]) {
      const bool number = extra[2].is_number();
      batch[i].reward_extras.push_back(
          {extra[0].get<std::string>(), extra[1].get<std::string>(),
           number ? std::optional(extra[2].get<double>()) : std::nullopt});
    }
  }
}

std::vector<reward::Sample> samples(const Inputs& inputs, const RolloutSpec& spec,
                                    std::span<const data::Trajectory> batch) {
  std::vector<reward::Sample> all;
  for (size_t i = 0; i < batch.size(); ++i) {
    all.push_back({.row = &spec.row_of(i),
                   .response = inputs.tokenizer->decode(batch[i].response_ids),
                   .response_length = batch[i].response_length(),
                   .uid = batch[i].uid,
                   .number = static_cast<int64_t>(i % static_cast<size_t>(spec.n))});
  }
  return all;
}

}  // namespace

std::optional<ProgramStats> score_responses(const Engine& engine, const Inputs& inputs,
                                            const RolloutSpec& spec,
                                            std::vector<data::Trajectory>& batch) {
  std::string mine;  // stays empty when it stops
  ProgramStats stats;
  if (engine.comm.world.rank() == 0) {
    reward::Manager& manager = *inputs.reward;
    stats = {-manager.failures(), -manager.restarts()};
    try {
      mine = encode(manager.score(samples(inputs, spec, batch), [&engine] {
        engine.comm.status.beat();
        if (engine.comm.world_stop.wanted()) throw Stopped();
      }));
    } catch (const Stopped&) {
    }
    stats.failures += manager.failures();
    stats.restarts += manager.restarts();
  }
  const auto all = engine.comm.world.all_gather_bytes(std::as_bytes(std::span(mine)));
  if (all[0].empty()) return {};
  decode({reinterpret_cast<const char*>(all[0].data()), all[0].size()}, batch);
  return stats;
}

std::optional<ProgramStats> score_batch(const Engine& engine, const TrainConfig& config,
                                        const Inputs& inputs, int64_t step,
                                        std::vector<data::Trajectory>& batch) {
  if (config.actor_rollout_ref.rollout.name == "replay") return ProgramStats();
  return score_responses(engine, inputs, training_rollout(config, inputs, step), batch);
}

}  // namespace verlcpp::train
