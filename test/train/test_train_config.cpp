#include <cstdlib>

#include "base/error.h"
#include "config/bind.h"
#include "config/compose.h"
#include "config/embedded.h"
#include "setup.h"
#include "support/catch.h"
#include "train/optimizer.h"
#include "train/train_config.h"

using namespace verlcpp;
using namespace verlcpp::train;
using test::configured;
using test::valid_run;

namespace {

const std::string kActorBudget = "actor_rollout_ref.actor.ppo_max_token_len_per_gpu";
const std::string kRefBudget = "actor_rollout_ref.ref.log_prob_max_token_len_per_gpu";
const std::string kRolloutBudget = "actor_rollout_ref.rollout.log_prob_max_token_len_per_gpu";

struct Budgets {
  int64_t actor, ref, rollout;
  bool operator==(const Budgets&) const = default;
};

Budgets budgets(const std::vector<std::string>& overrides) {
  const test::Configured c = configured(valid_run(), overrides);
  const ActorRolloutRefConfig& config = c.config.actor_rollout_ref;
  const auto in_tree = [&](const std::string& key) { return *c.tree.find(key)->get_if<int64_t>(); };
  const Budgets bound{config.actor.ppo_max_token_len_per_gpu,
                      config.ref.log_prob_max_token_len_per_gpu,
                      config.rollout.log_prob_max_token_len_per_gpu};
  CHECK(bound == Budgets{in_tree(kActorBudget), in_tree(kRefBudget), in_tree(kRolloutBudget)});
  return bound;
}

}  // namespace

TEST_CASE("a budget nobody set follows data.max_token_len_per_gpu, in structs and tree") {
  CHECK(budgets({}) == Budgets{16384, 16384, 16384});
  CHECK(budgets({"data.max_token_len_per_gpu=4096"}) == Budgets{4096, 4096, 4096});
  SECTION("the reference and the rollout follow an actor that was set") {
    CHECK(budgets({"data.max_token_len_per_gpu=4096", kActorBudget + "=8192"}) ==
          Budgets{8192, 8192, 8192});
  }
  SECTION("one that was set keeps its value, the others are fed") {
    CHECK(budgets({kRefBudget + "=1000", "data.max_token_len_per_gpu=4096"}) ==
          Budgets{4096, 1000, 4096});
    CHECK(budgets({kRolloutBudget + "=16384", "data.max_token_len_per_gpu=4096"}) ==
          Budgets{4096, 4096, 16384});
  }
}

TEST_CASE("a run is deterministic by verl's key or by Megatron's") {
  const auto on = [](const std::vector<std::string>& overrides) {
    return deterministic(configured(valid_run(), overrides).config);
  };
  const std::string mode =
      "+actor_rollout_ref.actor.megatron.override_transformer_config.deterministic_mode=";
  CHECK_FALSE(on({}));
  CHECK_FALSE(on({mode + "False"}));
  CHECK(on({mode + "True"}));
  CHECK(on({"actor_rollout_ref.rollout.full_determinism=True"}));
}

TEST_CASE("the fed budget carries the origin of the value that fed it") {
  const test::Configured c = configured(valid_run(), {"data.max_token_len_per_gpu=4096"});
  CHECK(c.tree.find(kActorBudget)->origin().text ==
        c.tree.find("data.max_token_len_per_gpu")->origin().text);
  CHECK_FALSE(is_shipped(c.tree.find(kActorBudget)->origin()));
}

TEST_CASE("an unresolved tree is fed where nobody set a budget, and resolves to the same") {
  const auto fed = [](const std::vector<std::string>& more) {
    config::Node tree =
        config::compose(
            {.search_path = {config::embedded()}, .config_name = "ppo_trainer", .overrides = more})
            .tree;
    config::Node resolved = config::resolve(tree);
    apply_token_budget(resolved);
    apply_token_budget(tree);
    CHECK(config::same_values(config::resolve(tree), resolved));
    return tree;
  };
  SECTION("nobody: all three are literals") {
    const config::Node tree = fed({"data.max_token_len_per_gpu=4096"});
    for (const std::string& key : {kActorBudget, kRefBudget, kRolloutBudget}) {
      CHECK(config::to_inline(*tree.find(key)) == "4096");
    }
  }
  SECTION("an interpolation that leads to a set budget stays") {
    const config::Node tree = fed({"data.max_token_len_per_gpu=4096", kActorBudget + "=8192"});
    CHECK(tree.find(kRefBudget)->get_if<config::Interpolation>() != nullptr);
  }
  SECTION("the budget itself is an interpolation") {
    const config::Node tree = fed({"data.max_token_len_per_gpu=${data.max_prompt_length}"});
    CHECK(config::to_inline(*tree.find(kActorBudget)) ==
          config::to_inline(*tree.find("data.max_prompt_length")));
  }
}

TEST_CASE("a world of absurd factors is no number that overflowed") {
  TrainConfig config;
  config.trainer.nnodes = int64_t{1} << 40;
  config.trainer.n_gpus_per_node = int64_t{1} << 40;
  CHECK(config.world_size() == 0);
}

TEST_CASE("shipped origins") {
  const test::Configured c = configured(valid_run(), {"+mine.x=1"});
  CHECK(is_shipped(c.tree.find("data.shuffle")->origin()));
  CHECK_FALSE(is_shipped(c.tree.find("mine.x")->origin()));
  CHECK(is_shipped(config::Origin{}));
}

TEST_CASE("every default binds to a struct field and every field has a default") {
  const test::Configured c = configured(valid_run());
  for (const std::string& key : config::key_list<TrainConfig>()) {
    INFO(key);
    CHECK(c.tree.find(key) != nullptr);
  }
}

TEST_CASE("a wrong type is refused with key, value and origin") {
  CHECK_THROWS_WITH(configured(valid_run(), {"data.train_batch_size=many"}),
                    Catch::Matchers::ContainsSubstring("data.train_batch_size") &&
                        Catch::Matchers::ContainsSubstring("many"));
}

TEST_CASE("dcp settings") {
  CHECK_FALSE(dcp_settings(configured(valid_run()).config.actor_rollout_ref.actor.megatron));
  const auto settings = [](const std::vector<std::string>& more) {
    return dcp_settings(
        configured(test::valid_dynamic_run(), more).config.actor_rollout_ref.actor.megatron);
  };
  REQUIRE(settings({}).has_value());
  CHECK(settings({})->max_seqlen_per_rank == 128);
  CHECK(settings({})->min_cp == 1);
  CHECK(settings({"+actor_rollout_ref.actor.megatron.override_transformer_config.min_dynamic_"
                  "context_parallel_size=2"})
            ->min_cp == 2);
}

TEST_CASE("paths begin at the home folder") {
  const char* home = std::getenv("HOME");
  REQUIRE(home != nullptr);
  CHECK(configured(valid_run(), {"actor_rollout_ref.model.path=~/m"})
            .config.actor_rollout_ref.model.path == std::string(home) + "/m");
}

TEST_CASE("a warm-up of null steps, as verl's own scripts write it, is the ratio's") {
  const std::string optim = "actor_rollout_ref.actor.optim.";
  const auto warmup = [&](const std::vector<std::string>& more) {
    const auto config = test::configured(test::valid_run(), more).config;
    return lr_schedule(config.actor_rollout_ref.actor.optim, 40).warmup_steps;
  };
  const std::string ratio = optim + "lr_warmup_steps_ratio=0.1";
  CHECK(warmup({ratio, optim + "lr_warmup_steps=null"}) == 4);
  CHECK(warmup({ratio, optim + "lr_warmup_steps=-1"}) == 4);
  CHECK(warmup({ratio, optim + "lr_warmup_steps=3"}) == 3);
}
