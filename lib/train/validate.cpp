#include "train/validate.h"

#include <algorithm>

#include "base/error.h"
#include "config/problems.h"
#include "train/validate_checks.h"

namespace verlcpp::train {

int64_t longest_sequence(const TrainConfig& config) {
  const RolloutConfig& rollout = config.actor_rollout_ref.rollout;
  // Larger lengths are refused; the sum of two of them is still a number.
  const int64_t prompt = std::max(config.data.max_prompt_length, rollout.prompt_length);
  return std::min(prompt, kMaxCount) + std::min(rollout.response_length, kMaxCount);
}

namespace {

/// --assume-response-length is a length that this run's responses can have.
void check_assumed_length(const TrainConfig& config, int64_t length, Findings& findings) {
  const std::string flag = "--assume-response-length " + std::to_string(length) + ": ";
  const int64_t longest = config.actor_rollout_ref.rollout.response_length;
  if (config.actor_rollout_ref.rollout.name == "replay") {
    findings.add_text(flag + findings.about("actor_rollout_ref.rollout.name") +
                      " has responses of recorded lengths; leave the flag out");
  } else if (is_count(longest) && (length < 1 || length > longest)) {
    findings.add_text(flag + "must be from 1 to " + findings.about(response_key(config)));
  }
}

}  // namespace

void check_all(const TrainConfig& config, Findings& findings,
               std::optional<int64_t> assumed_response_length) {
  for (const std::string& problem : unknown_keys(findings.tree())) findings.add_text(problem);
  check_layout(config, findings);
  check_dynamic_cp(config, findings);
  check_features(config, findings);
  check_batches(config, findings);
  check_algorithm(config, findings);
  check_run(config, findings);
  check_reward(config, findings);
  check_files(config, findings);
  check_keys(findings);
  check_unused(config, findings);
  if (assumed_response_length) check_assumed_length(config, *assumed_response_length, findings);
}

DryRunFindings validate_dry_run(const TrainConfig& config, const config::Node& tree,
                                std::optional<int64_t> assumed_response_length) {
  Findings findings(tree);
  check_all(config, findings, assumed_response_length);
  findings.finish();
  return {findings.warnings(), findings.limits()};
}

std::vector<std::string> validate(const TrainConfig& config, const config::Node& tree) {
  const DryRunFindings findings = validate_dry_run(config, tree);
  if (!findings.limits.empty()) throw ConfigError(config::numbered(findings.limits));
  return findings.warnings;
}

bool is_count(int64_t value) { return value >= 1 && value <= kMaxCount; }

bool is_positive_int(const config::Node& node) {
  const int64_t* value = node.get_if<int64_t>();
  return value != nullptr && *value > 0;
}

std::optional<parallel::AxisSizes> axis_sizes(const TrainConfig& config) {
  const MegatronConfig& megatron = config.actor_rollout_ref.actor.megatron;
  const parallel::AxisSizes sizes{.world = config.world_size(),
                                  .tp = megatron.tensor_model_parallel_size,
                                  .pp = megatron.pipeline_model_parallel_size,
                                  .cp = megatron.context_parallel_size};
  for (const int64_t size : {sizes.tp, sizes.pp, sizes.cp}) {
    if (size < 1 || size > kMaxAxis) return std::nullopt;
  }
  if (sizes.world < 1 || sizes.world > kMaxCount) return std::nullopt;
  if (sizes.world % (sizes.tp * sizes.pp * sizes.cp) != 0) return std::nullopt;
  return sizes;
}

std::vector<Role> roles(const TrainConfig& config) {
  return {{"actor", "actor_rollout_ref.actor.megatron", &config.actor_rollout_ref.actor.megatron},
          {"ref", "actor_rollout_ref.ref.megatron", &config.actor_rollout_ref.ref.megatron}};
}

bool inherited(const Findings& findings, const Role& role, const std::string& field) {
  if (role.name == "actor") return false;
  const config::Node* own = findings.tree().find(role.key + "." + field);
  const config::Node* actor = findings.tree().find("actor_rollout_ref.actor.megatron." + field);
  if (own == nullptr || actor == nullptr) return own == actor;
  return own->origin().text == actor->origin().text &&
         config::to_inline(*own) == config::to_inline(*actor);
}

}  // namespace verlcpp::train
