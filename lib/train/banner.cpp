#include "train/banner.h"

#include "train/engine.h"
#include "train/validate.h"
#include "train/validate_checks.h"

namespace verlcpp::train {
namespace {

constexpr const char* kBudget = "actor_rollout_ref.actor.ppo_max_token_len_per_gpu";
constexpr const char* kLimit = "actor_rollout_ref.actor.megatron.max_seqlen_per_dp_cp_rank";
constexpr const char* kRefBudget = "actor_rollout_ref.ref.log_prob_max_token_len_per_gpu";
constexpr const char* kRefLimit = "actor_rollout_ref.ref.megatron.max_seqlen_per_dp_cp_rank";

std::string text(int64_t number) { return std::to_string(number); }

std::string origin(const config::Node& tree, const std::string& key) {
  const config::Node* node = tree.find(key);
  return node == nullptr ? key : key + ", " + node->origin().text;
}

bool budget_is_stated(const TrainConfig& config, const BatchingRule& rule, const config::Node& tree,
                      const char* key) {
  const config::Node* node = tree.find(key);
  return rule.use_dynamic_bsz || config.data.max_token_len_per_gpu.has_value() ||
         (node != nullptr && !is_shipped(node->origin()));
}

std::string layout_line(const TrainConfig& config, const BatchingRule& rule) {
  const TrainerConfig& trainer = config.trainer;
  const MegatronConfig& megatron = config.actor_rollout_ref.actor.megatron;
  return "layout: world " + text(rule.sizes.world) + " = nnodes " + text(trainer.nnodes) +
         " x n_gpus_per_node " + text(trainer.n_gpus_per_node) + " x ranks_per_gpu " +
         text(trainer.ranks_per_gpu) + " on " + trainer.device + "; TP " + text(rule.sizes.tp) +
         ", PP " + text(rule.sizes.pp) + ", CP " + text(rule.sizes.cp) + ", DP " +
         text(rule.sizes.dp()) + "; DPxCP pool " + text(rule.sizes.pool()) +
         (rule.sizes.tp > 1 && megatron.sequence_parallel ? "; sequence parallel" : "") +
         (megatron.use_distributed_optimizer ? "; optimizer distributed over the pool" : "");
}

std::string budget_line(const BatchingRule& rule, const config::Node& tree) {
  return "token budget: " + text(rule.max_token_len_per_gpu) + " tokens per rank (" +
         origin(tree, kBudget) + ") x context_parallel_size " + text(rule.sizes.cp) + " = " +
         text(rule.max_token_len_per_gpu * rule.sizes.cp) + " tokens per pack";
}

/// What balances dynamic CP's groups; "" for the default scheduler.
std::string balance_text(const TrainConfig& config, const BatchingRule& rule) {
  if (!rule.dcp->balanced) return "";
  const PassCosts& costs = config.actor_rollout_ref.actor.megatron.costs;
  return costs.measured ? " balanced by times measured for " + costs.subject
                        : " balanced by verl's workload";
}

std::string micro_batch_line(const TrainConfig& config, const BatchingRule& rule,
                             const config::Node& tree) {
  if (rule.dcp) {
    const int64_t limit = rule.dcp->max_seqlen_per_rank;
    return "micro-batches: dynamic CP" + balance_text(config, rule) + ", limit " + text(limit) +
           " tokens per rank (" + origin(tree, kLimit) + "), groups of " + text(rule.dcp->min_cp) +
           " to " + text(rule.sizes.pool()) + " ranks; longest sequence " + text(limit) + " x " +
           text(rule.sizes.pool()) + " = " + text(limit * rule.sizes.pool()) +
           " tokens, prompt + response can reach " + text(longest_sequence(config));
  }
  if (rule.use_dynamic_bsz) {
    return "micro-batches: static CP, packed up to the token budget (use_dynamic_bsz=True); prompt "
           "+ response can reach " +
           text(longest_sequence(config));
  }
  return "micro-batches: static CP, " + text(rule.micro_batch_size_per_gpu) +
         " samples each (ppo_micro_batch_size_per_gpu); prompt + response can reach " +
         text(longest_sequence(config));
}

std::string mini_batch_line(const TrainConfig& config) {
  const ActorConfig& actor = config.actor_rollout_ref.actor;
  const int64_t n = config.actor_rollout_ref.rollout.n;
  const int64_t prompts = config.data.train_batch_size;
  const int64_t mini_batches = prompts / actor.ppo_mini_batch_size;
  return "mini-batches: " + text(prompts) + " prompts x n " + text(n) + " = " + text(prompts * n) +
         " responses a step; mini-batch " + text(actor.ppo_mini_batch_size) + " prompts x n " +
         text(n) + " = " + text(actor.ppo_mini_batch_size * n) + " responses; " +
         text(mini_batches) + " mini-batches x " + text(actor.ppo_epochs) +
         " epochs = " + text(mini_batches * actor.ppo_epochs) + " updates a step";
}

/// "" when the limit is the per-GPU budget.
std::string budget_warning(const BatchingRule& rule, const config::Node& tree,
                           const char* limit_key, const char* budget_key) {
  const int64_t limit = rule.dcp->max_seqlen_per_rank;
  const int64_t budget = rule.max_token_len_per_gpu;
  if (limit == budget) return "";
  const Findings about(tree);
  if (limit == budget * rule.sizes.cp) {
    return about.about(limit_key) + " equals the whole packed budget, " + about.about(budget_key) +
           " x context_parallel_size " + text(rule.sizes.cp) +
           ": the documented mistake. The limit is for one rank; set it to " + text(budget);
  }
  return about.about(limit_key) + " differs from the per-GPU token budget " +
         about.about(budget_key) + "; dynamic CP packs by the limit alone";
}

}  // namespace

std::vector<std::string> banner(const TrainConfig& config, const config::Node& tree) {
  const BatchingRule rule = batching_rule(config, Pass::kActorUpdate);
  std::vector<std::string> lines = {layout_line(config, rule)};
  if (!rule.dcp || budget_is_stated(config, rule, tree, kBudget))
    lines.push_back(budget_line(rule, tree));
  lines.push_back(micro_batch_line(config, rule, tree));
  lines.push_back(mini_batch_line(config));
  return lines;
}

std::vector<std::string> budget_warnings(const TrainConfig& config, const config::Node& tree) {
  const BatchingRule actor = batching_rule(config, Pass::kActorUpdate);
  std::vector<std::string> warnings;
  const auto check = [&](const BatchingRule& rule, const char* limit, const char* budget) {
    if (!rule.dcp || !budget_is_stated(config, rule, tree, budget)) return;
    const std::string text = budget_warning(rule, tree, limit, budget);
    if (!text.empty()) warnings.push_back(text);
  };
  check(actor, kLimit, kBudget);
  if (!config.uses_reference()) return warnings;
  const BatchingRule ref = batching_rule(config, Pass::kRefLogProb);
  const bool own_limit =
      ref.dcp && actor.dcp && ref.dcp->max_seqlen_per_rank != actor.dcp->max_seqlen_per_rank;
  if (own_limit) check(ref, kRefLimit, kRefBudget);
  return warnings;
}

std::vector<std::string> scheduler_warnings(const TrainConfig& config, const config::Node& tree) {
  const Findings findings(tree);
  std::vector<std::string> warnings;
  for (const Role& role : roles(config)) {
    const MegatronConfig& m = *role.megatron;
    if (role.name == "ref" &&
        (!config.uses_reference() || (inherited(findings, role, "dynamic_cp_scheduler") &&
                                      inherited(findings, role, "dynamic_cp_cost_model")))) {
      continue;
    }
    const std::string text = scheduler_warning(findings, role.key, m.dynamic_cp_scheduler,
                                               m.dynamic_context_parallel, m.costs.measured);
    if (!text.empty()) warnings.push_back(text);
  }
  return warnings;
}

}  // namespace verlcpp::train
