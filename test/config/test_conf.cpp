#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>

#include "config/embedded.h"
#include "helpers.h"
#include "support/catch.h"

using namespace verlcpp;
using namespace verlcpp::config;

namespace {

/// Relative paths of the YAML files below conf/, without ".yaml".
std::vector<std::string> shipped_files() {
  namespace fs = std::filesystem;
  std::vector<std::string> names;
  for (const auto& entry : fs::recursive_directory_iterator(VERLCPP_CONF)) {
    if (entry.path().extension() != ".yaml") continue;
    names.push_back(fs::relative(entry.path(), VERLCPP_CONF).replace_extension().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

/// Keys whose default is not verl's, each for a reason.
const std::set<std::string> kOurDefaults = {
    "trainer.logger",                  // no wandb: a file instead
    "actor_rollout_ref.rollout.name",  // mandatory in verl
};
/// Keys verl does not have.
const std::set<std::string> kOurKeys = {
    "model_engine",  // verl has it, but its table leaves it out
    "data.max_token_len_per_gpu",
    "trainer.ranks_per_gpu",
    "actor_rollout_ref.model.random_init",
    "actor_rollout_ref.actor.megatron.dynamic_cp_scheduler",
    "actor_rollout_ref.actor.megatron.dynamic_cp_cost_model",
    "actor_rollout_ref.ref.megatron.dynamic_cp_scheduler",
    "actor_rollout_ref.ref.megatron.dynamic_cp_cost_model",
    "critic.megatron.dynamic_cp_scheduler",  // as the engine has it; without effect
    "critic.megatron.dynamic_cp_cost_model",
    "critic.model.random_init",  // as the model has it; without effect
    "actor_rollout_ref.rollout.record_path",
    "actor_rollout_ref.rollout.replay_path",
    "reward.custom_reward_function.reward_kwargs",  // in verl after a +
    "reward.custom_reward_function.timeout_s",
    "reward.custom_reward_function.on_failure",
    "reward.reward_kwargs",  // in verl after a +
    "reward.gsm8k_method",
    "custom_reward_function.reward_kwargs",  // in older releases after a +
    "reward_model.reward_kwargs",
};

}  // namespace

TEST_CASE("conf: the embedded files are the shipped ones") {
  for (const std::string& name : shipped_files()) {
    INFO(name);
    std::ifstream stream(std::string(VERLCPP_CONF) + "/" + name + ".yaml");
    const std::string text(std::istreambuf_iterator<char>(stream), {});
    CHECK(embedded().read(name + ".yaml") == text);
  }
  CHECK(embedded().list("model_engine") == std::vector<std::string>{"megatron"});
  CHECK(embedded().list("") == folder(VERLCPP_CONF).list(""));
  CHECK_FALSE(embedded().read("nothing.yaml").has_value());
}

TEST_CASE("conf: every file composes and prints back to itself") {
  const std::vector<std::string> names = shipped_files();
  REQUIRE(names.size() > 10);
  for (const std::string& name : names) {
    INFO(name);
    const Node tree = compose({{embedded()}, name, {}}).tree;
    CHECK(same_values(parse_yaml(to_yaml(tree), "again"), tree));
    if (name.find('/') != std::string::npos) continue;
    const Node whole = resolve(tree);
    CHECK(same_values(parse_yaml(to_yaml(whole), "again"), whole));
    CHECK(to_yaml(whole).find("${") == std::string::npos);
    Node rest = whole;
    rest.erase("reward.reward_model.rollout.name");  // nothing reads it: nobody has to set it
    CHECK(to_yaml(rest).find("???") == std::string::npos);
  }
}

TEST_CASE("conf: the tree of ppo_megatron_trainer is verl's, but for named differences") {
  const Node tree = compose({{embedded()}, "ppo_megatron_trainer", {}}).tree;
  std::map<std::string, std::string> golden;
  std::ifstream stream(std::string(VERLCPP_GOLDEN_DIR) + "/verl_defaults.tsv");
  for (std::string line; std::getline(stream, line);) {
    const size_t tab = line.find('\t');
    golden[line.substr(0, tab)] = line.substr(tab + 1);
  }
  REQUIRE(golden.size() == 947);
  std::set<std::string> ours, differ;
  for (const std::string& key : leaf_keys(tree)) {
    const auto row = golden.find(key);
    if (row == golden.end()) {
      ours.insert(key);
      continue;
    }
    const Node file = parse_yaml("v: " + row->second + "\n", "golden");
    if (!same_values(*tree.find(key), *file.find("v"))) differ.insert(key);
    golden.erase(row);
  }
  CHECK(ours == kOurKeys);
  CHECK(differ == kOurDefaults);
  for (const auto& [key, value] : golden) {
    INFO(key << " is not in the tree");
    CHECK(false);
  }
}

TEST_CASE("conf: the reference and the rollout follow the actor and the data") {
  const std::string a = "actor_rollout_ref.actor.", r = "actor_rollout_ref.ref.";
  const Node tree = resolve(
      compose(
          {{embedded()},
           "ppo_trainer",
           {a + "megatron.context_parallel_size=4", a + "megatron.dynamic_context_parallel=True",
            a + "megatron.max_seqlen_per_dp_cp_rank=4096",
            a + "megatron.dynamic_cp_scheduler=balanced",
            a + "megatron.dynamic_cp_cost_model=cost.json", a + "use_dynamic_bsz=True",
            a + "ppo_max_token_len_per_gpu=4096", "data.max_response_length=2048",
            "actor_rollout_ref.rollout.n=5", "trainer.experiment_name=e",
            "+" + a + "megatron.override_transformer_config.min_dynamic_context_parallel_size=2"}})
          .tree);
  const auto shown = [&](const std::string& key) { return to_inline(*tree.find(key)); };
  CHECK(shown(r + "megatron.context_parallel_size") == "4");
  CHECK(shown(r + "megatron.dynamic_context_parallel") == "True");
  CHECK(shown(r + "megatron.max_seqlen_per_dp_cp_rank") == "4096");
  CHECK(shown(r + "megatron.dynamic_cp_scheduler") == "'balanced'");
  CHECK(shown(r + "megatron.dynamic_cp_cost_model") == "'cost.json'");
  CHECK(shown(r + "megatron.override_transformer_config.min_dynamic_context_parallel_size") == "2");
  CHECK(shown(r + "megatron.forward_only") == "True");
  CHECK(shown(r + "log_prob_use_dynamic_bsz") == "True");
  CHECK(shown(r + "log_prob_max_token_len_per_gpu") == "4096");
  CHECK(shown("actor_rollout_ref.rollout.log_prob_max_token_len_per_gpu") == "4096");
  CHECK(shown("actor_rollout_ref.rollout.response_length") == "2048");
  CHECK(shown(a + "rollout_n") == "5");
  CHECK(shown("trainer.default_local_dir") == "'checkpoints/verl_examples/e'");
  CHECK(tree.find(r + "megatron.context_parallel_size")->origin().text == "override 1");
  CHECK(tree.find(a + "optim.lr")->origin().text.starts_with("conf/actor/actor.yaml:"));
}

TEST_CASE("conf: other engines are refused by name, the old name of the trainer works") {
  for (const std::string engine : {"fsdp", "dp", "mindspeed"}) {
    const std::string choice = "model_engine=" + engine;
    CHECK(config_error([&] {
            compose({{embedded()}, "ppo_trainer", {choice}});
          }) ==
          choice + " (override 1): there is no option " + engine + "; only megatron is available");
  }
  CHECK(same_values(compose({{embedded()}, "ppo_megatron_trainer.yaml", {}}).tree,
                    compose({{embedded()}, "ppo_trainer", {"model_engine=megatron"}}).tree));
}
