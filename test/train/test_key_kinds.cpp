#include <fstream>
#include <map>
#include <sstream>

#include "base/error.h"
#include "config/yaml.h"
#include "setup.h"
#include "support/catch.h"
#include "support/temporary_folder.h"
#include "train/config_changes.h"
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
const config::Origin kByUser{"run.yaml:7", config::Origin::Source::kFile};

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
  if (const bool* value = node.get_if<bool>()) return config::Node(!*value, kByUser);
  if (const int64_t* value = node.get_if<int64_t>()) return config::Node(*value + 1, kByUser);
  if (const double* value = node.get_if<double>()) return config::Node(*value + 1, kByUser);
  return config::Node(std::string("other"), kByUser);
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
    CHECK((is_bound(key) || answers[0].kind != KeyKind::kHonoured));
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
    if (pattern.find("override_config.") != std::string::npos) continue;
    if (known_keys(shipped_tree()).more.contains(pattern)) {
      CHECK(answers_about(pattern).size() == 1);
      continue;
    }
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
    if (is_member(key)) continue;
    INFO(key);
    const Outcome outcome = outcome_of_change(key);
    REQUIRE(outcome.problems.size() == 1);
    CHECK(outcome.problems[0].starts_with(key + " = "));
    CHECK_THAT(outcome.problems[0],
               ContainsSubstring("(run.yaml:7): " + answers_about(key)[0].reason + "; must be "));
    CHECK(outcome.warnings.empty());
  }
}

TEST_CASE("each refused key that a struct binds is refused by its own check") {
  const std::string parallel = "pipeline_model_parallel_size";
  const std::map<std::string, config::Node> other_values = {
      {"critic.enable", config::Node(true, kByUser)},
      {kA + "actor.megatron.virtual_" + parallel, config::Node(int64_t{2}, kByUser)},
      {kA + "ref.megatron.virtual_" + parallel, config::Node(int64_t{2}, kByUser)}};
  int checked = 0;
  for (const std::string& key : keys_of(KeyKind::kRefused)) {
    if (!is_member(key)) continue;
    INFO(key);
    test::Configured c = configured(valid_run(), {kA + "actor.use_kl_loss=True"});
    CHECK_NOTHROW(validate(c.config, c.tree));
    const auto value = other_values.find(key);
    c.tree.set(key, value == other_values.end() ? changed(*c.tree.find(key)) : value->second);
    const TrainConfig config = bind_train_config(c.tree);
    CHECK_THROWS_WITH(validate(config, c.tree),
                      ContainsSubstring(". " + key + " = ") && ContainsSubstring("(run.yaml:7): "));
    ++checked;
  }
  CHECK(checked > 20);
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

TEST_CASE("a key that + adds at the root is named as the user's own") {
  const Outcome outcome = outcome_of({"+mine.x=1", "+mine.y.z=[2]", "+rate=2e-5"});
  CHECK(outcome.problems.empty());
  REQUIRE(outcome.warnings.size() == 1);
  CHECK(outcome.warnings[0] ==
        "mine (override 20), rate (override 22) are no keys of verl's, and of use only where a "
        "${...} refers to them");
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
  // Set to what it follows anyway: it stays where it is when the actor's alone is mended.
  CHECK(outcome_of({kA + "actor." + field + "=2", kA + "ref." + field + "=2"}).problems.size() ==
        2);
  CHECK(outcome_of({kA + "actor." + field + "=2", kA + "ref." + field + "=1"}).problems.size() ==
        1);
  const Outcome both = outcome_of({kA + "actor." + field + "=2", kA + "ref." + field + "=4"});
  REQUIRE(both.problems.size() == 2);
  CHECK(both.problems[1].starts_with(kA + "ref." + field + " = 4 (override 21): "));
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
                                        "not implemented; all weights are trained; must be 0"));
  CHECK_THAT(message, ContainsSubstring("rloo") && ContainsSubstring("algorithm.use_pf_ppo"));
}

TEST_CASE("a printed tree says the same as the one that was printed") {
  const std::vector<std::string> overrides = {kA + "actor.megatron.param_offload=True",
                                              "reward_model.reward_manager=dapo"};
  const test::Configured c = configured(valid_run(), overrides);
  config::Node printed = config::parse_yaml(config::to_yaml(c.tree), "dump.yaml");
  const TrainConfig config = bind_train_config(printed);
  CHECK(config.reward.reward_manager.name == "dapo");
  Findings findings(printed);
  check_keys(findings);
  CHECK(findings.problems().empty());
  // What follows other keys is as it would be, and is not named.
  REQUIRE(findings.warnings().size() == 2);
  CHECK_THAT(findings.warnings()[0], ContainsSubstring("is read as reward.reward_manager.name"));
  CHECK_THAT(findings.warnings()[1],
             ContainsSubstring("says why): " + kA + "actor.megatron.param_offload (dump.yaml:") &&
                 !ContainsSubstring(", "));
}

TEST_CASE("findings name what a user has put into a shipped map, whatever its name is") {
  const config::Origin shipped{"conf/x.yaml:1", config::Origin::Source::kShipped};
  config::Node tree = config::Node::map({}, shipped);
  tree.set("a", config::Node::map({}, shipped));
  tree.set("a.own", config::Node(1.0, shipped));
  const auto about = [&](const std::string& key) { return Findings(tree).about(key); };
  CHECK(about("a") == "a = {own: 1.0} (conf/x.yaml:1)");
  for (const char* name : {"b.c", ""}) {
    tree.find("a")->items().emplace_back(name, config::Node(true, kByUser));
  }
  CHECK(about("a") == "a = {own: 1.0, b.c: True, '': True} (run.yaml:7)");
  CHECK(about("a.b.c") == "a.b.c = True (run.yaml:7)");
  CHECK(about("a.") == "a. = True (run.yaml:7)");
  CHECK(about("a.b") == "a.b (missing)");
}

TEST_CASE("keys that changed since a save, whatever their names are") {
  const test::TemporaryFolder folder;
  const std::string saved = folder.write("config.yaml", "a.b: 1\na: {b: 2, c: 3}\n");
  CHECK(changed_keys(saved, "a.b: 4\na: {b: 2, c: 5}\n'': 6\n") ==
        "'': absent -> 6, a.c: 3 -> 5, a.b: 1 -> 4");
  CHECK(changed_keys(saved, "a.b: 1\na: {b: 2, c: 3}\n").empty());
}

TEST_CASE("free keys of the optimizer") {
  const std::string o = "+" + kA + "actor.optim.override_optimizer_config.";
  CHECK(outcome_of({o + "optimizer_cpu_offload=True"}).warnings.size() == 1);
  const Outcome eps = outcome_of({o + "adam_eps=1e-6"});
  REQUIRE(eps.problems.size() == 1);
  CHECK_THAT(eps.problems[0], ContainsSubstring("adam_eps = 1e-06 (override 20): is not read") &&
                                  ContainsSubstring("; leave it out"));
}

TEST_CASE("free keys of the model") {
  const std::string o = "+" + kA + "model.override_config.";
  CHECK(outcome_of({o + "max_position_embeddings=99"}).problems.empty());
  CHECK(outcome_of({o + "model_config.max_position_embeddings=99"}).problems.empty());
  CHECK_THAT(failure({o + "moe_config.freeze_moe_router=True"}),
             ContainsSubstring("freeze_moe_router = True (override 20): mixture-of-experts models "
                               "are not implemented; leave it out"));
}

TEST_CASE("keys of a known group that verl does not have are errors") {
  const std::string one = "the configuration has 1 problem:\n  1. ";
  CHECK(failure({"+" + kA + "actor.profiler.enabel=True"}) ==
        one + kA + "actor.profiler.enabel (override 20) is not a known key; did you mean " + kA +
            "actor.profiler.enable?");
  CHECK(failure({"++critic.ppo_epoch=2"}) ==
        one + "critic.ppo_epoch (override 20) is not a known key; did you mean critic.ppo_epochs?");
  CHECK(failure({"+ray_kwargs.ray_init.runtime_env.env_vars.X=1"}) == "valid");
  CHECK(failure({"+actor_rollout_ref.rollout.engine_kwargs.other.x=1"}) == "valid");
  // A shipped group that was put where nothing reads it.
  CHECK(failure({"+actor=megatron_actor"}) ==
        one +
            "actor (conf/optim/megatron.yaml:2) is not a known key; did you mean "
            "actor_rollout_ref?");
  CHECK(failure({"+optim@trainer.optim=megatron"}).find(one + "trainer.optim (conf/optim/") == 0);
  // Together with what is wrong with values.
  CHECK(failure({"++critic.ppo_epoch=2", "trainer.total_epochs=0"}).find("has 2 problems") !=
        std::string::npos);
}
