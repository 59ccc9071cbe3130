#include "train/train_config.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string_view>
#include <utility>

#include "config/bind.h"
#include "config/interpolation.h"
#include "config/problems.h"
#include "data/prompts.h"
#include "train/key_kinds.h"
#include "train/validate_findings.h"

namespace verlcpp::train {
namespace {

constexpr const char* kBudgetKey = "data.max_token_len_per_gpu";
constexpr std::array<std::string_view, 3> kFedByBudget = {
    "actor_rollout_ref.actor.ppo_max_token_len_per_gpu",
    "actor_rollout_ref.ref.log_prob_max_token_len_per_gpu",
    "actor_rollout_ref.rollout.log_prob_max_token_len_per_gpu",
};

/// Whether `key` holds the budget that apply_token_budget() puts there.
bool is_fed(const config::Node& tree, const std::string& key) {
  const config::Node *budget = tree.find(kBudgetKey), *node = tree.find(key);
  return std::find(kFedByBudget.begin(), kFedByBudget.end(), key) != kFedByBudget.end() &&
         budget != nullptr && node != nullptr && config::same_values(*budget, *node) &&
         budget->origin().text == node->origin().text;
}

config::KnownKeys keys_to_bind(const config::Node& tree, const config::KeyHistory& history) {
  config::KnownKeys known = known_keys(tree);
  known.follows = [&tree, &history, shipped = known.follows](const std::string& key) {
    // A tree that nobody composed has the shipped links.
    const bool links = history.links.empty() ? shipped(key) : history.follows(key);
    return links || is_fed(tree, key);
  };
  known.link = [&history](const std::string& key) { return history.link(key); };
  known.deleted_by = [&history](const std::string& key) { return history.deleted_by(key); };
  return known;
}

void expand_paths(TrainConfig& config) {
  RolloutConfig& rollout = config.actor_rollout_ref.rollout;
  for (std::optional<std::string>* path :
       {&rollout.record_path, &rollout.replay_path, &config.data.tool_config_path,
        &config.trainer.resume_from_path, &config.trainer.rollout_data_dir,
        &config.trainer.validation_data_dir}) {
    if (path->has_value()) *path = data::expand_home(**path);
  }
  const auto expand = [](std::vector<std::string>& files) {
    for (std::string& file : files) file = data::expand_home(file);
  };
  expand(config.data.train_files);
  if (config.data.val_files) expand(*config.data.val_files);
  config.actor_rollout_ref.model.path = data::expand_home(config.actor_rollout_ref.model.path);
  config.trainer.default_local_dir = data::expand_home(config.trainer.default_local_dir);
}

bool has_shipped(const config::Node& tree) {
  if (!tree.is_map()) return is_shipped(tree.origin());
  return std::any_of(tree.items().begin(), tree.items().end(),
                     [](const auto& item) { return has_shipped(item.second); });
}

/// A primary file without a defaults list holds its own keys alone, as in Hydra; one message says
/// so instead of one for each key that it lacks.
void refuse_bare_file(const config::Node& tree) {
  if (!tree.is_map() || has_shipped(tree)) return;
  const bool empty = tree.items().empty();
  const std::string origin = (empty ? tree : tree.items().front().second).origin().text;
  throw ConfigError(origin.substr(0, origin.find(':')) + (empty ? ": is empty: " : ": ") +
                    "no defaults list leads to verl's keys, and it lacks them; begin the file "
                    "with\n  defaults:\n    - ppo_megatron_trainer\n"
                    "    - _self_");
}

/// Once for a run, so that all ranks and passes plan by the same numbers.
void read_costs(const config::Node& tree, TrainConfig& config) {
  const Findings findings(tree);
  ActorRolloutRefConfig& roles = config.actor_rollout_ref;
  for (const auto& [megatron, role] :
       {std::pair{&roles.actor.megatron, "actor"}, std::pair{&roles.ref.megatron, "ref"}}) {
    if (!megatron->dynamic_cp_cost_model) continue;
    const std::string key =
        std::string("actor_rollout_ref.") + role + ".megatron.dynamic_cp_cost_model";
    try {
      megatron->costs =
          read_cost_file(data::expand_home(*megatron->dynamic_cp_cost_model), findings.about(key));
    } catch (const ConfigError& error) {
      megatron->costs_problem = error.what();  // said with the rest, by validate()
    }
  }
}

}  // namespace

bool is_shipped(const config::Origin& origin) {
  return origin.source == config::Origin::Source::kShipped;
}

void apply_token_budget(config::Node& tree) {
  const config::Node* found = tree.find(kBudgetKey);
  if (found == nullptr || found->is_null()) return;
  // What an interpolation leads to, with its origin, says whether somebody set the budget.
  const std::optional<config::Node> budget = config::select(tree, kBudgetKey);
  if (!budget || budget->is_null()) return;
  const config::Node before = tree;
  for (const std::string_view key : kFedByBudget) {
    const std::optional<config::Node> value = config::select(before, std::string(key));
    config::Node* node = tree.find(key);
    if (node != nullptr && value && is_shipped(value->origin())) *node = *budget;
  }
}

std::vector<std::string> unknown_keys(const config::Node& tree) {
  TrainConfig ignored;
  config::Binder binder(known_keys(tree));
  binder.bind(tree, "", ignored);
  return binder.unknown_keys();
}

UnreadableValues::UnreadableValues(std::vector<std::string> problems, std::vector<std::string> keys)
    : ConfigError(problems.size() == 1 ? problems[0] : config::numbered(problems)),
      problems_(std::move(problems)),
      keys_(std::move(keys)) {}

TrainConfig bind_train_config(config::Node& resolved_tree, const config::KeyHistory& history) {
  apply_moved_keys(resolved_tree);
  apply_token_budget(resolved_tree);
  TrainConfig config;
  config::Binder binder(keys_to_bind(resolved_tree, history));
  binder.bind(resolved_tree, "", config);
  if (!binder.problems().empty()) refuse_bare_file(resolved_tree);
  if (binder.problems() != binder.unknown_keys()) {
    throw UnreadableValues(binder.problems(), binder.unreadable_keys());
  }
  expand_paths(config);
  read_costs(resolved_tree, config);
  return config;
}

const std::vector<std::string>& read_transformer_overrides() {
  static const std::vector<std::string> names = {"recompute_granularity",
                                                 "recompute_modules",
                                                 "recompute_method",
                                                 "recompute_num_layers",
                                                 "attention_backend",
                                                 "cp_comm_type",
                                                 "deterministic_mode",
                                                 "min_dynamic_context_parallel_size",
                                                 "fp8",
                                                 "moe_router_fusion"};
  return names;
}

const config::Node* transformer_override(const MegatronConfig& megatron, const std::string& name) {
  const config::Node& overrides = megatron.override_transformer_config;
  const config::Node* node = overrides.is_map() ? overrides.find(name) : nullptr;
  return node == nullptr || node->is_null() ? nullptr : node;
}

std::optional<DcpSettings> dcp_settings(const MegatronConfig& megatron) {
  if (!megatron.dynamic_context_parallel) return std::nullopt;
  DcpSettings settings{.balanced = megatron.dynamic_cp_scheduler == kBalancedScheduler};
  config::read(megatron.max_seqlen_per_dp_cp_rank, "max_seqlen_per_dp_cp_rank",
               settings.max_seqlen_per_rank);
  const config::Node* min_cp = transformer_override(megatron, "min_dynamic_context_parallel_size");
  if (min_cp != nullptr) {
    config::read(*min_cp, "override_transformer_config.min_dynamic_context_parallel_size",
                 settings.min_cp);
  }
  return settings;
}

bool deterministic(const TrainConfig& config) {
  const auto asks = [](const MegatronConfig& megatron) {
    const config::Node& overrides = megatron.override_transformer_config;
    const config::Node* mode = overrides.is_map() ? overrides.find("deterministic_mode") : nullptr;
    const bool* on = mode == nullptr ? nullptr : mode->get_if<bool>();
    return on != nullptr && *on;
  };
  const ActorRolloutRefConfig& roles = config.actor_rollout_ref;
  return roles.rollout.full_determinism || asks(roles.actor.megatron) || asks(roles.ref.megatron);
}

}  // namespace verlcpp::train
