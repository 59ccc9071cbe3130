#include "train/compare_arms.h"

#include <algorithm>
#include <set>

#include "base/error.h"
#include "train/validate.h"
#include "train/validate_checks.h"

namespace verlcpp::train {
namespace {

const std::string kA = "actor_rollout_ref.";
const std::string kLimit = "max_seqlen_per_dp_cp_rank";
const std::string kActorLimit = kA + "actor.megatron." + kLimit;
const std::string kActorBudget = kA + "actor.ppo_max_token_len_per_gpu";
const std::vector<std::string> kDynamicSwitches = {kA + "actor.megatron.dynamic_context_parallel",
                                                   kA + "ref.megatron.dynamic_context_parallel"};
const std::vector<std::string> kLimits = {kActorLimit, kA + "ref.megatron." + kLimit};
const std::vector<std::string> kSchedulers = {kA + "actor.megatron.dynamic_cp_scheduler",
                                              kA + "ref.megatron.dynamic_cp_scheduler"};
const std::vector<std::string> kBatchSwitches = {kA + "actor.use_dynamic_bsz",
                                                 kA + "ref.log_prob_use_dynamic_bsz",
                                                 kA + "rollout.log_prob_use_dynamic_bsz"};
const std::vector<std::string> kBudgets = {kActorBudget, kA + "ref.log_prob_max_token_len_per_gpu",
                                           kA + "rollout.log_prob_max_token_len_per_gpu"};

std::string text(int64_t number) { return std::to_string(number); }

struct Limit {
  std::string key;
  int64_t tokens = 0;
  std::string origin;
  std::string about;  // "key = value (origin)"
};

Limit find_limit(const config::Node& tree) {
  const config::Node* node = tree.find(kActorLimit);
  std::string key = kActorLimit;
  if (node == nullptr || node->is_null()) {
    key = kActorBudget;
    node = tree.find(key);
  }
  Findings findings(tree);
  const int64_t* tokens = node == nullptr ? nullptr : node->get_if<int64_t>();
  findings.require(tokens != nullptr && is_count(*tokens), key,
                   std::string("the limit of --compare-dcp ") + kValidCount);
  findings.finish();
  return {key, *tokens, node->origin().text, findings.about(key)};
}

/// The tree with nothing changed but what the arm is about.
CompareArm make_arm(const config::Node& tree, const std::string& name, bool dynamic,
                    schedule::Packing packing, const Limit& limit) {
  CompareArm arm{
      .name = name, .limit = limit.about, .tree = tree, .config = {}, .packing = packing};
  const std::string by = "--compare-dcp, " + name;
  const config::Origin chosen{by, config::Origin::Source::kFlag};
  // Not a shipped file's, so that data.max_token_len_per_gpu does not feed it again.
  const config::Origin limited{by + ": " + limit.key + " of " + limit.origin,
                               config::Origin::Source::kFlag};
  const auto set = [&](const std::vector<std::string>& keys, const config::Scalar& value,
                       const config::Origin& origin) {
    for (const std::string& key : keys) arm.tree.set(key, config::Node(value, origin));
  };
  set(kDynamicSwitches, dynamic, chosen);
  set(kBatchSwitches, true, chosen);
  set(kLimits, limit.tokens, limited);
  set(kBudgets, limit.tokens, limited);
  arm.config = bind_train_config(arm.tree);
  return arm;
}

void set_scheduler(CompareArm& arm, const std::string& scheduler) {
  for (const std::string& key : kSchedulers) {
    arm.tree.set(key, config::Node(scheduler, config::Origin{"--compare-dcp, " + arm.name,
                                                             config::Origin::Source::kFlag}));
  }
  arm.config = bind_train_config(arm.tree);
}

/// Tokens of the longest sequence that fits.
int64_t capacity(const CompareArm& arm) {
  const BatchingRule rule = batching_rule(arm.config, Pass::kActorUpdate);
  return compare_limit(arm) * (arm.dynamic() ? rule.sizes.pool() : rule.sizes.cp);
}

/// "a and b up to 128 tokens (64 per rank x context_parallel_size 2)".
std::string capacities(std::span<const CompareArm> arms, const std::vector<size_t>& which) {
  std::string out;
  for (size_t i = 0; i < which.size(); ++i) {
    const CompareArm& arm = arms[which[i]];
    const bool last = i + 1 == which.size();
    out += arm.name;
    if (!last && capacity(arm) == capacity(arms[which[i + 1]])) {
      out += " and ";
      continue;
    }
    const parallel::AxisSizes sizes = batching_rule(arm.config, Pass::kActorUpdate).sizes;
    out += " up to " + text(capacity(arm)) + " tokens (" + text(compare_limit(arm)) +
           " per rank x " +
           (arm.dynamic() ? "DPxCP " + text(sizes.pool())
                          : "context_parallel_size " + text(sizes.cp)) +
           ")" + (last ? "" : ", ");
  }
  return out;
}

std::string shown(const config::Node* node) {
  if (node == nullptr) return "missing";
  return config::to_inline(*node) + " (" + node->origin().text + ")";
}

}  // namespace

std::vector<CompareArm> compare_arms(const config::Node& resolved_tree) {
  const Limit limit = find_limit(resolved_tree);
  using schedule::Packing;
  std::vector<CompareArm> arms;
  arms.push_back(make_arm(resolved_tree, "static-balanced", false, Packing::kBalanced, limit));
  arms.push_back(make_arm(resolved_tree, "static-in-order", false, Packing::kInOrder, limit));
  arms.push_back(make_arm(resolved_tree, "dcp", true, Packing::kBalanced, limit));
  if (arms.back().config.actor_rollout_ref.actor.megatron.dynamic_cp_scheduler ==
      kBalancedScheduler) {
    arms.push_back(make_arm(resolved_tree, "dcp-balanced", true, Packing::kBalanced, limit));
    set_scheduler(arms[2], kDefaultScheduler);
  }
  // A static arm is the given configuration under another budget; the samples say whether it fits.
  try {
    validate(arms.back().config, arms.back().tree);
  } catch (const ConfigError& e) {
    throw ConfigError("--compare-dcp, arm " + arms.back().name + ": " + e.what());
  }
  return arms;
}

int64_t compare_limit(const CompareArm& arm) {
  return arm.config.actor_rollout_ref.actor.ppo_max_token_len_per_gpu;
}

Planner arm_planner(const CompareArm& arm, Pass pass) {
  const BatchingRule rule = batching_rule(arm.config, pass);
  if (rule.dcp || arm.packing == schedule::Packing::kBalanced) return make_planner(rule);
  return [rule, packing = arm.packing](std::span<const int64_t> lengths) {
    return schedule::schedule_static_cp(lengths,
                                        {.dp = rule.sizes.dp(),
                                         .cp = rule.sizes.cp,
                                         .micro_batch_size = rule.micro_batch_size_per_gpu,
                                         .token_budget = rule.max_token_len_per_gpu * rule.sizes.cp,
                                         .packing = packing});
  };
}

void check_same_samples(std::span<const CompareArm> arms, std::span<const data::Trajectory> batch) {
  const auto longest = std::max_element(
      batch.begin(), batch.end(),
      [](const data::Trajectory& a, const data::Trajectory& b) { return a.length() < b.length(); });
  if (longest == batch.end()) return;
  std::vector<size_t> able, unable;
  for (size_t i = 0; i < arms.size(); ++i) {
    (longest->length() <= capacity(arms[i]) ? able : unable).push_back(i);
  }
  if (unable.empty()) return;
  const int64_t cp = batching_rule(arms.front().config, Pass::kActorUpdate).sizes.cp;
  throw ConfigError(
      "--compare-dcp: the arms would not process the same tokens: sample " +
      text(longest - batch.begin()) + " (uid " + longest->uid + ") has " + text(longest->length()) +
      ". What differs is the longest sequence: " + capacities(arms, unable) +
      (able.empty() ? "" : "; ") + capacities(arms, able) + "; " + arms[unable.front()].limit +
      ". Raise it to at least " + text((longest->length() + cp - 1) / cp) +
      ", raise context_parallel_size, or cap the response length");
}

std::vector<std::string> differing_settings(const CompareArm& a, const CompareArm& b) {
  std::set<std::string> ours;
  for (const auto* keys : {&kDynamicSwitches, &kLimits, &kSchedulers, &kBatchSwitches, &kBudgets}) {
    ours.insert(keys->begin(), keys->end());
  }
  std::vector<config::Leaf> all = config::leaves(a.tree);
  for (config::Leaf& leaf : config::leaves(b.tree)) {
    if (a.tree.at(leaf.path) == nullptr) all.push_back(std::move(leaf));
  }
  std::vector<std::string> out;
  for (const config::Leaf& leaf : all) {
    const config::Node *left = a.tree.at(leaf.path), *right = b.tree.at(leaf.path);
    if (ours.contains(leaf.key())) continue;
    if (left != nullptr && right != nullptr && config::same_values(*left, *right)) continue;
    out.push_back(leaf.key() + " = " + shown(right) + " in " + b.name + ", " + shown(left) +
                  " in " + a.name);
  }
  return out;
}

}  // namespace verlcpp::train
