#include "base/error.h"
#include "config/compose.h"
#include "config/embedded.h"
#include "setup.h"
#include "support/catch.h"
#include "train/key_kinds.h"
#include "train/validate.h"

using namespace verlcpp;
using namespace verlcpp::train;
using Catch::Matchers::ContainsSubstring;
using test::configured;
using test::valid_run;

namespace {

std::vector<std::string> warnings(const std::vector<std::string>& overrides) {
  const test::Configured c = configured(valid_run(), overrides);
  return validate(c.config, c.tree);
}

std::string failure(const std::vector<std::string>& overrides) {
  try {
    warnings(overrides);
  } catch (const ConfigError& e) {
    return e.what();
  }
  return "valid";
}

}  // namespace

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
  const std::vector<std::string> lines = warnings(overrides);
  REQUIRE(lines.size() == 5);  // the last: a name without a path has no effect
  CHECK(lines[0] ==
        "custom_reward_function.name (override 20), a key of older releases, is read as "
        "reward.custom_reward_function.name");
  SECTION("a new place that was set wins") {
    const auto both =
        warnings({"reward_model.reward_manager=dapo", "reward.reward_manager.name=gdpo"});
    REQUIRE(both.size() == 1);
    CHECK_THAT(both[0], ContainsSubstring(
                            "has no effect: reward.reward_manager.name = 'gdpo' (override 21)"));
  }
  SECTION("what was refused in the new place is refused from the old one") {
    CHECK_THAT(failure({"reward_model.enable=True"}),
               ContainsSubstring("reward.reward_model.enable = True (override 20)"));
  }
}

TEST_CASE("keys of older releases name the new place") {
  CHECK(failure({"+trainer.profile_steps=[1]"}) ==
        "the configuration has 1 problem:\n  1. trainer.profile_steps (override 20) is not a known "
        "key; trainer.profile_steps of older "
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
