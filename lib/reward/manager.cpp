#include "reward/manager.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "reward/extras.h"

namespace verlcpp::reward {
namespace {

std::string truth_json(const data::PromptRow& row) {
  return row.ground_truth_json.empty() ? nlohmann::json(row.ground_truth).dump()
                                       : row.ground_truth_json;
}

}  // namespace

double overlong_reward(const OverlongBuffer& buffer, int64_t response_length) {
  const int64_t exceeding = response_length - (buffer.max_resp_len - buffer.len);
  return std::min(
      -static_cast<double>(exceeding) / static_cast<double>(buffer.len) * buffer.penalty_factor,
      0.0);
}

Manager::Manager(ManagerOptions options, const std::function<void()>& beat)
    : options_(std::move(options)) {
  if (options_.program) program_.emplace(*options_.program, beat);
}

std::string Manager::why_not_scored(const data::PromptRow& row, bool has_ground_truth) const {
  return program_ ? "" : reward::why_not_scored(row, has_ground_truth);
}

std::vector<Reward> Manager::score(std::span<const Sample> samples,
                                   const std::function<void()>& beat) {
  std::vector<Reward> rewards;
  if (program_) {
    std::vector<Question> questions;
    for (const Sample& sample : samples) questions.push_back(question(sample));
    rewards = program_->ask(questions, beat);
  } else {
    for (const Sample& sample : samples) {
      beat();
      rewards.push_back(compute_score(*sample.row, sample.response, options_.gsm8k));
    }
  }
  if (options_.kind != ManagerKind::kDapo || !options_.overlong) return rewards;
  for (size_t i = 0; i < samples.size(); ++i) {
    const double penalty = overlong_reward(*options_.overlong, samples[i].response_length);
    rewards[i].score += penalty;
    if (!options_.overlong->log) continue;
    rewards[i].extras.push_back(extra("overlong_reward", penalty));
    rewards[i].extras.push_back(extra("overlong", penalty < 0));
  }
  return rewards;
}

Question Manager::question(const Sample& sample) const {
  const data::PromptRow& row = *sample.row;
  auto info = row.extra_json.empty() ? nlohmann::ordered_json::object()
                                     : nlohmann::ordered_json::parse(row.extra_json);
  if (info.is_null()) info = nlohmann::ordered_json::object();
  if (info.is_object() && options_.kind == ManagerKind::kNaive) {
    info["num_turns"] = kTurns;
    info["rollout_reward_scores"] = nlohmann::ordered_json::object();
  }
  if (info.is_object() && options_.kind == ManagerKind::kGdpo) {
    info["experiment_name"] = options_.experiment_name;
  }
  return {.data_source = row.data_source,
          .response = sample.response,
          .ground_truth_json = truth_json(row),
          .extra_json = info.dump(),
          .where = row.origin + " (uid " + sample.uid + ", response " +
                   std::to_string(sample.number) + ")"};
}

}  // namespace verlcpp::reward
