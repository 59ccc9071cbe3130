#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "base/error.h"
#include "config/compose.h"
#include "config/embedded.h"
#include "setup.h"
#include "support/catch.h"
#include "train/key_kinds.h"
#include "train/validate.h"
#include "train/validate_checks.h"

using namespace verlcpp;
using namespace verlcpp::train;
using Catch::Matchers::ContainsSubstring;
using test::configured;
using test::valid_run;

namespace {

const std::string kA = "actor_rollout_ref.";

/// Keys that structs bind for their type although they have no effect.
const std::set<std::string> kBoundWithoutEffect = {
    "data.filter_overlong_prompts_workers",
    "data.dataloader_num_workers",
    "data.validation_shuffle",
    kA + "rollout.tensor_model_parallel_size",
    kA + "rollout.gpu_memory_utilization",
    "reward.num_workers",
};

std::vector<std::string> keys_of(KeyKind kind) {
  std::vector<std::string> keys;
  for (const std::string& key : config::leaf_keys(shipped_tree())) {
    const auto answers = answers_about(key);
    if (answers.size() == 1 && answers[0].kind == kind) keys.push_back(key);
  }
  return keys;
}

/// A value that differs from `node`, set by a user.
config::Node changed(const config::Node& node) {
  const config::Origin origin{"run.yaml:7"};
  if (const bool* value = node.get_if<bool>()) return config::Node(!*value, origin);
  if (const int64_t* value = node.get_if<int64_t>()) return config::Node(*value + 1, origin);
  if (const double* value = node.get_if<double>()) return config::Node(*value + 1, origin);
  return config::Node(std::string("other"), origin);
}

/// What check_keys says when one key has another value than the shipped one.
struct Outcome {
  std::vector<std::string> problems, warnings;
};
Outcome outcome_of_change(const std::string& key) {
  config::Node tree = shipped_values();
  tree.set(key, changed(*tree.find(key)));
  Findings findings(tree);
  check_keys(findings);
  return {findings.problems(), findings.warnings()};
}

Outcome outcome_of(const std::vector<std::string>& overrides) {
  const test::Configured c = configured(valid_run(), overrides);
  Findings findings(c.tree);
  check_keys(findings);
  return {findings.problems(), findings.warnings()};
}

std::string failure(const std::vector<std::string>& overrides) {
  try {
    const test::Configured c = configured(valid_run(), overrides);
    validate(c.config, c.tree);
  } catch (const ConfigError& e) {
    return e.what();
  }
  return "valid";
}

}  // namespace

TEST_CASE("every key of the shipped tree has exactly one kind, and a reason unless honoured") {
  for (const std::string& key : config::leaf_keys(shipped_tree())) {
    const auto answers = answers_about(key);
    INFO(key);
    REQUIRE(answers.size() == 1);
    CHECK((answers[0].kind == KeyKind::kHonoured) == answers[0].reason.empty());
    const bool read = is_bound(key) && !kBoundWithoutEffect.contains(key);
    CHECK((answers[0].kind == KeyKind::kHonoured) == read);
  }
}

TEST_CASE("the kinds are frozen") {
  std::map<std::string, std::string> frozen, now;
  std::ifstream file(std::string(VERLCPP_SOURCE) + "/test/golden/key_kinds.tsv");
  REQUIRE(file);
  for (std::string line; std::getline(file, line);) {
    frozen[line.substr(0, line.find('\t'))] = line.substr(line.find('\t') + 1);
  }
  std::istringstream table(explain_keys());
  std::string line;
  std::getline(table, line);
  CHECK(line == "key\tdefault\tkind\treason");
  while (std::getline(table, line) && !line.starts_with("# ")) {
    const size_t value = line.find('\t'), kind = line.find('\t', value + 1);
    now[line.substr(0, value)] = line.substr(kind + 1, line.find('\t', kind + 1) - kind - 1);
  }
  CHECK(line.starts_with("# " + std::to_string(now.size()) + " keys: "));
  for (const auto& [key, kind] : frozen) {
    INFO(key);
    CHECK(now[key] == kind);
  }
  CHECK(now.size() == frozen.size());
}

TEST_CASE("no rule speaks about nothing") {
  for (const KeyRule& rule : key_rules()) {
    const std::string pattern = rule.pattern;
    if (pattern.find("override_optimizer_config.") != std::string::npos) continue;  // free keys
    bool used = false;
    for (const std::string& key : config::leaf_keys(shipped_tree())) {
      const auto answers = answers_about(key);
      used = used ||
             (!answers.empty() && answers[0].kind == rule.kind && answers[0].reason == rule.reason);
    }
    INFO(pattern);
    CHECK(used);
  }
}

TEST_CASE("nothing is said about keys that nobody set") {
  Findings findings(shipped_values());
  check_keys(findings);
  CHECK(findings.problems().empty());
  CHECK(findings.warnings().empty());
}

TEST_CASE("each refused key is refused when it is changed, with reason and default") {
  const auto keys = keys_of(KeyKind::kRefused);
  CHECK(keys.size() > 40);
  for (const std::string& key : keys) {
    INFO(key);
    const Outcome outcome = outcome_of_change(key);
    REQUIRE(outcome.problems.size() == 1);
    CHECK(outcome.problems[0].starts_with(key + " = "));
    CHECK_THAT(outcome.problems[0],
               ContainsSubstring("(run.yaml:7): " + answers_about(key)[0].reason + "; must be "));
    CHECK(outcome.warnings.empty());
  }
}

TEST_CASE("each key without effect is named when it is changed") {
  const auto keys = keys_of(KeyKind::kNoEffect);
  CHECK(keys.size() > 600);
  for (const std::string& key : keys) {
    INFO(key);
    const Outcome outcome = outcome_of_change(key);
    CHECK(outcome.problems.empty());
    REQUIRE(outcome.warnings.size() == 1);
    CHECK(outcome.warnings[0] ==
          "this key has no effect here (--explain-keys says why): " + key + " (run.yaml:7)");
  }
}

TEST_CASE("one line names all keys without effect that were set, also to their defaults") {
  const Outcome outcome = outcome_of({kA + "rollout.gpu_memory_utilization=0.5",
                                      "+" + kA + "rollout.engine_kwargs.vllm.swap_space=4",
                                      kA + "actor.megatron.param_offload=True"});
  CHECK(outcome.problems.empty());
  REQUIRE(outcome.warnings.size() == 1);
  // The reference's param_offload follows the actor's: nobody set it.
  CHECK(outcome.warnings[0] == "these keys have no effect here (--explain-keys says why): " + kA +
                                   "actor.megatron.param_offload (override 22), " + kA +
                                   "rollout.gpu_memory_utilization (override 20), " + kA +
                                   "rollout.engine_kwargs.vllm.swap_space (override 21)");
}

TEST_CASE("keys that follow a refused one are not named; those that were set are") {
  const std::string field = "megatron.expert_model_parallel_size";
  const Outcome actor = outcome_of({kA + "actor." + field + "=2"});
  REQUIRE(actor.problems.size() == 1);
  CHECK(actor.problems[0].starts_with(kA + "actor." + field + " = 2 (override 20): "));
  const Outcome both = outcome_of({kA + "actor." + field + "=2", kA + "ref." + field + "=2"});
  CHECK(both.problems.size() == 2);
  const Outcome group = outcome_of({kA + "actor.megatron.qat.enable=True"});
  CHECK(group.problems.size() == 1);
}

TEST_CASE("a default, also written as another kind of number, is accepted") {
  const auto quiet = [](const std::string& override) {
    const Outcome outcome = outcome_of({override});
    return outcome.problems.empty();
  };
  CHECK(quiet(kA + "model.lora_rank=0"));
  CHECK(quiet(kA + "rollout.over_sample_rate=0.0"));
  CHECK(quiet("trainer.critic_warmup=0"));
  CHECK(quiet(kA + "rollout.agent.default_agent_loop=single_turn_agent"));
  CHECK_FALSE(quiet(kA + "rollout.over_sample_rate=0.1"));
}

TEST_CASE("refused keys come with the other problems of the configuration") {
  const std::string message = failure(
      {kA + "model.lora_rank=8", "algorithm.adv_estimator=rloo", "algorithm.use_pf_ppo=True"});
  CHECK_THAT(message, ContainsSubstring("the configuration has 3 problems:"));
  CHECK_THAT(message, ContainsSubstring("model.lora_rank = 8 (override 20): low-rank adapters are "
                                        "not built; all weights are trained; must be 0"));
  CHECK_THAT(message, ContainsSubstring("rloo") && ContainsSubstring("algorithm.use_pf_ppo"));
}

TEST_CASE("free keys of the optimizer") {
  const std::string o = "+" + kA + "actor.optim.override_optimizer_config.";
  CHECK(outcome_of({o + "optimizer_cpu_offload=True"}).warnings.size() == 1);
  const Outcome eps = outcome_of({o + "adam_eps=1e-6"});
  REQUIRE(eps.problems.size() == 1);
  CHECK_THAT(eps.problems[0], ContainsSubstring("adam_eps = 1e-06 (override 20): is not read") &&
                                  ContainsSubstring("; leave it out"));
}

TEST_CASE("keys of a known group that verl does not have are errors") {
  CHECK(failure({"+" + kA + "actor.profiler.enabel=True"}) ==
        kA + "actor.profiler.enabel (override 20) is not a known key; did you mean " + kA +
            "actor.profiler.enable?");
  CHECK(failure({"++critic.ppo_epoch=2"}) ==
        "critic.ppo_epoch (override 20) is not a known key; did you mean critic.ppo_epochs?");
  CHECK(failure({"+ray_kwargs.ray_init.runtime_env.env_vars.X=1"}) == "valid");
}

TEST_CASE("the reward's keys of older releases go to their new places, with a line each") {
  const std::vector<std::string> overrides = {
      "custom_reward_function.name=my_score", "+custom_reward_function.reward_kwargs.a=1",
      "reward_model.reward_manager=dapo",
      "+reward_model.reward_kwargs.overlong_buffer_cfg.enable=False"};
  const test::Configured c = configured(valid_run(), overrides);
  CHECK(c.config.reward.custom_reward_function.name == "my_score");
  CHECK(c.config.reward.custom_reward_function.reward_kwargs.find("a") != nullptr);
  CHECK(c.config.reward.reward_manager.name == "dapo");
  CHECK(c.tree.find("reward.reward_manager.name")->origin().text == "override 22");
  const Outcome outcome = outcome_of(overrides);
  CHECK(outcome.problems.empty());
  REQUIRE(outcome.warnings.size() == 4);
  CHECK(outcome.warnings[0] ==
        "custom_reward_function.name (override 20), a key of older releases, is read as "
        "reward.custom_reward_function.name");
  SECTION("a new place that was set wins") {
    const Outcome both =
        outcome_of({"reward_model.reward_manager=dapo", "reward.reward_manager.name=gdpo"});
    REQUIRE(both.warnings.size() == 1);
    CHECK_THAT(
        both.warnings[0],
        ContainsSubstring("has no effect: reward.reward_manager.name = 'gdpo' (override 21)"));
  }
  SECTION("what was refused in the new place is refused from the old one") {
    CHECK_THAT(failure({"reward_model.enable=True"}),
               ContainsSubstring("reward.reward_model.enable = True (override 20)"));
  }
}

TEST_CASE("keys of older releases name the new place") {
  CHECK(failure({"+trainer.profile_steps=[1]"}) ==
        "trainer.profile_steps (override 20) is not a known key; trainer.profile_steps of older "
        "releases is now global_profiler.steps");
  const auto composed = [](const std::string& override) -> std::string {
    try {
      config::compose({.search_path = {config::embedded()},
                       .config_name = "ppo_trainer",
                       .overrides = {override},
                       .old_keys = old_keys()});
    } catch (const ConfigError& e) {
      return e.what();
    }
    return "valid";
  };
  CHECK(composed("ray_init.num_cpus=4") ==
        "ray_init.num_cpus=4 (override 1): there is no key ray_init.num_cpus; ray_init of older "
        "releases is now ray_kwargs.ray_init");
  for (const auto& [key, text] : old_keys()) {
    INFO(key);
    CHECK(shipped_tree().find(key) == nullptr);
    CHECK_THAT(composed(key + "=1"), ContainsSubstring("; " + key + " " + text));
    const std::string place = text.substr(text.rfind("is now ") + 7);
    if (text.find("is now ") == std::string::npos) continue;
    CHECK(shipped_tree().find(place.substr(0, place.find(','))) != nullptr);
  }
}
