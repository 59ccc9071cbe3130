#include <algorithm>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "train/validate.h"
#include "train/validate_checks.h"

namespace verlcpp::train {
namespace {

constexpr const char* kDataBudget = "data.max_token_len_per_gpu";
constexpr const char* kActorBudget = "actor_rollout_ref.actor.ppo_max_token_len_per_gpu";

std::string text(int64_t number) { return std::to_string(number); }

/// One pass over samples and the keys that cut it into micro-batches.
struct PassKeys {
  // Field names inside the block.
  std::string block, budget, micro, micro_per_gpu, dynamic_bsz;
  bool use_dynamic_bsz;
  int64_t token_budget;
  std::optional<int64_t> global_size, size_per_gpu;
  const MegatronConfig* megatron;
};

std::vector<PassKeys> passes(const TrainConfig& config) {
  const ActorConfig& actor = config.actor_rollout_ref.actor;
  const RefConfig& ref = config.actor_rollout_ref.ref;
  const RolloutConfig& rollout = config.actor_rollout_ref.rollout;
  const auto log_prob = [](const std::string& block, const auto& from,
                           const MegatronConfig& megatron) {
    return PassKeys{"actor_rollout_ref." + block + ".",
                    "log_prob_max_token_len_per_gpu",
                    "log_prob_micro_batch_size",
                    "log_prob_micro_batch_size_per_gpu",
                    "log_prob_use_dynamic_bsz",
                    from.log_prob_use_dynamic_bsz,
                    from.log_prob_max_token_len_per_gpu,
                    from.log_prob_micro_batch_size,
                    from.log_prob_micro_batch_size_per_gpu,
                    &megatron};
  };
  std::vector<PassKeys> out = {
      {"actor_rollout_ref.actor.", "ppo_max_token_len_per_gpu", "ppo_micro_batch_size",
       "ppo_micro_batch_size_per_gpu", "use_dynamic_bsz", actor.use_dynamic_bsz,
       actor.ppo_max_token_len_per_gpu, actor.ppo_micro_batch_size,
       actor.ppo_micro_batch_size_per_gpu, &actor.megatron},
      log_prob("rollout", rollout, actor.megatron)};
  if (config.uses_reference()) out.push_back(log_prob("ref", ref, ref.megatron));
  return out;
}

/// The keys that say how it is cut.
Findings::Keys cut_keys(const PassKeys& pass) {
  const std::string role = pass.block == "actor_rollout_ref.ref." ? "ref" : "actor";
  const std::string megatron = "actor_rollout_ref." + role + ".megatron.";
  return {pass.block + pass.dynamic_bsz, megatron + "dynamic_context_parallel",
          megatron + "context_parallel_size"};
}

/// Those, and the keys of the layout.
Findings::Keys shape_keys(const PassKeys& pass) {
  Findings::Keys keys = layout_keys();
  for (std::string& key : cut_keys(pass)) keys.push_back(std::move(key));
  return keys;
}

/// Two keys that hold one value from one place: the one follows the other.
bool same_value(const Findings& findings, const std::string& a, const std::string& b) {
  const config::Node* one = findings.tree().find(a);
  const config::Node* other = findings.tree().find(b);
  return one != nullptr && other != nullptr && one->origin().text == other->origin().text &&
         config::to_inline(*one) == config::to_inline(*other);
}

/// data.max_token_len_per_gpu feeds the budgets that nobody set: a warning when somebody set it and
/// every one of them to something else. Those that follow the actor's are not named.
void warn_of_beaten_budget(const std::vector<PassKeys>& passes, Findings& findings) {
  const config::Node* shared = findings.tree().find(kDataBudget);
  if (shared == nullptr || shared->is_null() || is_shipped(shared->origin())) return;
  std::vector<std::string> beating;
  for (const PassKeys& pass : passes) {
    const std::string key = pass.block + pass.budget;
    const config::Node* own = findings.tree().find(key);
    if (own == nullptr || config::same_values(*own, *shared)) return;
    if (key == kActorBudget || !same_value(findings, key, kActorBudget)) {
      beating.push_back(findings.about(key));
    }
  }
  findings.warn(findings.about(kDataBudget) + " has no effect: " + join(beating) +
                (beating.size() == 1 ? " is set too" : " are set too"));
}

/// verl: exactly one of the two sizes without use_dynamic_bsz. Under DCP neither shapes anything,
/// so none is demanded.
void check_micro_batch_sizes(const PassKeys& pass, Findings& findings) {
  const std::string both = pass.block + pass.micro + " and " + pass.block + pass.micro_per_gpu;
  if (pass.size_per_gpu && !is_count(*pass.size_per_gpu)) {
    findings.add(pass.block + pass.micro_per_gpu, std::string(kValidCount) + " or null");
  }
  if (pass.use_dynamic_bsz) return;
  if (pass.global_size && pass.size_per_gpu) {
    findings.add_text("You have set both " + both + "; remove " +
                          findings.about(pass.block + pass.micro) + ", which is deprecated",
                      cut_keys(pass));
  } else if (pass.global_size) {
    findings.add(pass.block + pass.micro,
                 "the global micro-batch size is deprecated and not read; remove it and set " +
                     pass.block + pass.micro_per_gpu + " instead",
                 cut_keys(pass));
  } else if (!pass.size_per_gpu && !pass.megatron->dynamic_context_parallel) {
    findings.add(pass.block + pass.micro_per_gpu,
                 "must be a positive integer, unless actor_rollout_ref.actor.use_dynamic_bsz=True "
                 "cuts micro-batches by tokens",
                 cut_keys(pass));
  }
}

void check_longest(const TrainConfig& config, const PassKeys& pass, Findings& findings) {
  const int64_t longest = longest_sequence(config);
  const std::string keys = longest_text(config, findings);
  const std::optional<parallel::AxisSizes> sizes = axis_sizes(config);
  if (!sizes) return;
  if (pass.megatron->dynamic_context_parallel) {
    if (!is_positive_int(pass.megatron->max_seqlen_per_dp_cp_rank)) return;
    const int64_t limit = *pass.megatron->max_seqlen_per_dp_cp_rank.get_if<int64_t>();
    const std::string limit_key =
        pass.block == "actor_rollout_ref.ref."
            ? "actor_rollout_ref.ref.megatron.max_seqlen_per_dp_cp_rank"
            : "actor_rollout_ref.actor.megatron.max_seqlen_per_dp_cp_rank";
    if (limit > kMaxCount || longest <= sizes->pool() * limit) return;
    findings.add_text(
        keys + ": a sequence of that length needs at least " + text((longest + limit - 1) / limit) +
            " ranks with " + findings.about(limit_key) + ", but the DPxCP group only has " +
            text(sizes->pool()) + (sizes->pool() == 1 ? " rank (" : " ranks (") +
            text(sizes->pool() * limit) + " tokens); " + fits_text(config, sizes->pool() * limit) +
            ". Increase max_seqlen_per_dp_cp_rank or cap the rollout sequence length; the smallest "
            "max_seqlen_per_dp_cp_rank that takes all is " +
            text((longest + sizes->pool() - 1) / sizes->pool()),
        shape_keys(pass));
    return;
  }
  if (!pass.use_dynamic_bsz || !is_count(pass.token_budget)) return;
  const int64_t cp = pass.megatron->context_parallel_size;
  const int64_t capacity = pass.token_budget * cp;
  if (longest <= capacity) return;
  findings.add_text("max_token_len must be greater than the sequence length: " + keys + ", but " +
                        findings.about(pass.block + pass.budget) + " x context_parallel_size " +
                        text(cp) + " = " + text(capacity) + "; " + fits_text(config, capacity) +
                        "; the smallest budget that takes all is " + text((longest + cp - 1) / cp),
                    shape_keys(pass));
}

void check_step_sizes(const TrainConfig& config, Findings& findings) {
  const ActorConfig& actor = config.actor_rollout_ref.actor;
  const int64_t train = config.data.train_batch_size;
  const int64_t mini = actor.ppo_mini_batch_size;
  const std::string mini_key = "actor_rollout_ref.actor.ppo_mini_batch_size";
  const std::string n_key = "actor_rollout_ref.rollout.n";
  const int64_t n = config.actor_rollout_ref.rollout.n;
  findings.require(is_count(train), "data.train_batch_size", kValidCount);
  findings.require(is_count(mini), mini_key, kValidCount);
  findings.require(is_count(n), n_key, kValidCount);
  findings.require(actor.rollout_n == n, "actor_rollout_ref.actor.rollout_n",
                   "must equal " + findings.about(n_key));
  if (!is_count(train) || !is_count(mini) || !is_count(n)) return;
  if (train > kMaxCount / n) {
    findings.add_text(findings.about("data.train_batch_size") + " x " + findings.about(n_key) +
                      " = " + text(train * n) + " responses a step; must be at most " +
                      text(kMaxCount));
  }
  if (train < mini) {
    findings.add("data.train_batch_size",
                 "train_batch_size must be >= " + findings.about(mini_key) + "; nearest valid: " +
                     text(mini) + ", or a ppo_mini_batch_size of " + text(train));
  } else if (train % mini != 0) {
    findings.add(mini_key, "must divide " + findings.about("data.train_batch_size") +
                               "; nearest valid: " + nearest_divisors(mini, train));
  }
  const std::optional<parallel::AxisSizes> sizes = axis_sizes(config);
  if (actor.use_dynamic_bsz || !actor.ppo_micro_batch_size_per_gpu || !sizes) return;
  if (!is_count(*actor.ppo_micro_batch_size_per_gpu)) return;
  const int64_t minimal = sizes->dp() * *actor.ppo_micro_batch_size_per_gpu;
  if (train * n % minimal == 0) return;
  // What would do is whole mini-batches, too.
  const int64_t step = std::lcm(minimal / std::gcd(minimal, n), mini);
  findings.add_text("real_train_batch_size (" + text(train * n) + " = " +
                        findings.about("data.train_batch_size") + " x " + findings.about(n_key) +
                        ") must be divisible by minimal possible batch size (" + text(minimal) +
                        " = data-parallel size " + text(sizes->dp()) + " x " +
                        findings.about("actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu") +
                        "); nearest valid data.train_batch_size: " + nearest_multiples(train, step),
                    shape_keys(passes(config).front()));
}

}  // namespace

std::string response_key(const TrainConfig& config) {
  return config.data.max_response_length == config.actor_rollout_ref.rollout.response_length
             ? "data.max_response_length"
             : "actor_rollout_ref.rollout.response_length";
}

std::string longest_text(const TrainConfig& config, const Findings& findings) {
  const RolloutConfig& rollout = config.actor_rollout_ref.rollout;
  const std::string prompt = config.data.max_prompt_length >= rollout.prompt_length
                                 ? "data.max_prompt_length"
                                 : "actor_rollout_ref.rollout.prompt_length";
  return findings.about(prompt) + " + " + findings.about(response_key(config)) + " = " +
         text(longest_sequence(config)) + " tokens";
}

std::string fits_text(const TrainConfig& config, int64_t capacity) {
  const int64_t prompt =
      std::max(config.data.max_prompt_length, config.actor_rollout_ref.rollout.prompt_length);
  return capacity > prompt ? "the longest response that fits is " + text(capacity - prompt)
                           : "no response fits after a prompt of " + text(prompt);
}

void check_batches(const TrainConfig& config, Findings& findings) {
  const DataConfig& data = config.data;
  findings.require(is_count(data.max_prompt_length), "data.max_prompt_length", kValidCount);
  findings.require(is_count(data.max_response_length), "data.max_response_length", kValidCount);
  findings.require(is_count(data.max_token_len_per_gpu.value_or(1)), kDataBudget,
                   std::string(kValidCount) + " or null");
  for (const auto& [samples, key] : {std::pair{data.train_max_samples, "data.train_max_samples"},
                                     std::pair{data.val_max_samples, "data.val_max_samples"}}) {
    findings.require(samples == -1 || samples >= 1, key,
                     "must be -1 (all) or a positive number of rows");
  }
  findings.require(!data.prompt_key.empty(), "data.prompt_key", "must name a column of the rows");
  findings.require(!data.reward_fn_key.empty(), "data.reward_fn_key",
                   "must name a column of the rows");
  check_step_sizes(config, findings);

  const size_t before = findings.count();
  for (const PassKeys& pass : passes(config)) {
    check_micro_batch_sizes(pass, findings);
    const std::string key = pass.block + pass.budget;
    const bool judged = same_value(findings, key, kDataBudget) ||
                        (key != kActorBudget && same_value(findings, key, kActorBudget));
    findings.require(judged || is_count(pass.token_budget), key, kValidCount);
  }
  // Passes that follow the actor say the same; one line is enough.
  const bool sizes_ok = findings.count() == before;
  if (sizes_ok && is_count(data.max_prompt_length) && is_count(data.max_response_length)) {
    for (const PassKeys& pass : passes(config)) {
      const size_t so_far = findings.count();
      check_longest(config, pass, findings);
      if (findings.count() > so_far) break;
    }
  }
  warn_of_beaten_budget(passes(config), findings);
  const ActorConfig& actor = config.actor_rollout_ref.actor;
  findings.require(
      actor.use_dynamic_bsz == config.actor_rollout_ref.rollout.log_prob_use_dynamic_bsz,
      "actor_rollout_ref.rollout.log_prob_use_dynamic_bsz",
      "must equal " + findings.about("actor_rollout_ref.actor.use_dynamic_bsz"));
}

}  // namespace verlcpp::train
