// --selftest-layout below the executable: which layouts, which samples, and what the report says.

#include <limits>
#include <set>

#include "config/compose.h"
#include "config/embedded.h"
#include "support/catch.h"
#include "train/selftest_layout.h"

using Catch::Matchers::ContainsSubstring;
using namespace verlcpp;
using namespace verlcpp::train;

namespace {

config::Node quickstart(const std::vector<std::string>& overrides = {}) {
  return config::resolve(config::compose({{config::embedded()}, "quickstart", overrides}).tree);
}

model::ModelConfig small_model() {
  model::ModelConfig m;
  m.architecture = "Qwen2ForCausalLM";
  m.vocab = 8;
  m.hidden = 16;
  m.ffn = 24;
  m.layers = 1;
  m.heads = 4;
  m.kv_heads = 2;
  m.head_dim = 4;
  return m;
}

std::vector<data::Trajectory> samples(const std::vector<size_t>& lengths, double reward) {
  std::vector<data::Trajectory> batch;
  for (size_t length : lengths) {
    data::Trajectory& t = batch.emplace_back();
    t.uid = "group" + std::to_string(batch.size() / 3);
    t.prompt_ids = {1};
    t.response_ids.assign(length, 2);
    t.response_mask.assign(length, 1);
    t.rollout_log_probs.assign(length, -1.0);
    t.reward = reward;
  }
  return batch;
}

SelftestReport report(double difference) {
  SelftestReport r{.about = {"layout self-test"}, .rows = {}, .skipped = {}, .tolerance = 1e-9};
  r.rows.push_back({.name = "your own",
                    .overrides = {},
                    .ranks = 4,
                    .micro_batches = 3,
                    .difference = {1e-16, 1e-16, 2e-16, 1e-17}});
  r.rows.push_back({.name = "DP 1 CP 2",
                    .overrides = {"trainer.n_gpus_per_node=2"},
                    .ranks = 2,
                    .micro_batches = 5,
                    .difference = {1e-16, 1e-16, difference, 1e-17}});
  return r;
}

}  // namespace

TEST_CASE("the layouts of a self-test: the user's own first, then every kind that fits") {
  std::vector<std::string> skipped;
  const auto layouts = selftest_layouts(quickstart(), small_model(), 40, skipped);
  REQUIRE(layouts.size() > 20);
  CHECK(layouts.front().name == "your own");
  CHECK(layouts.front().overrides.empty());
  std::set<int64_t> tp, cp, dp, pools;
  bool without_zero1 = false, without_sp = false, by_size = false;
  for (const SelftestLayout& layout : layouts) {
    INFO(layout.name);
    const MegatronConfig& m = layout.config.actor_rollout_ref.actor.megatron;
    const BatchingRule rule = batching_rule(layout.config, Pass::kActorUpdate);
    CHECK(rule.sizes.world <= 8);
    CHECK(rule.sizes.world == layout.config.world_size());
    tp.insert(rule.sizes.tp);
    if (rule.dcp) {
      CHECK(rule.dcp->max_seqlen_per_rank * rule.sizes.pool() >= 40);
      pools.insert(rule.sizes.pool());
    } else {
      CHECK((!rule.use_dynamic_bsz || rule.max_token_len_per_gpu * rule.sizes.cp >= 40));
      cp.insert(rule.sizes.cp);
      dp.insert(rule.sizes.dp());
      by_size = by_size || !rule.use_dynamic_bsz;
    }
    without_zero1 = without_zero1 || !m.use_distributed_optimizer;
    without_sp = without_sp || (rule.sizes.tp > 1 && !m.sequence_parallel);
    // The reference's passes follow.
    const MegatronConfig& ref = layout.config.actor_rollout_ref.ref.megatron;
    CHECK(ref.context_parallel_size == m.context_parallel_size);
    CHECK(ref.dynamic_context_parallel == m.dynamic_context_parallel);
    CHECK(layout.config.actor_rollout_ref.rollout.log_prob_use_dynamic_bsz ==
          layout.config.actor_rollout_ref.actor.use_dynamic_bsz);
  }
  CHECK(tp == std::set<int64_t>{1, 2, 4});
  CHECK(cp == std::set<int64_t>{1, 2, 3, 4, 8});
  CHECK(dp == std::set<int64_t>{1, 2, 4, 8});
  CHECK(pools == std::set<int64_t>{2, 4, 6, 8});
  CHECK((without_zero1 && without_sp && by_size));
  REQUIRE(skipped.size() == 1);
  CHECK(skipped[0] ==
        "actor_rollout_ref.actor.megatron.tensor_model_parallel_size=8: must divide the model's 4 "
        "attention heads");
}

TEST_CASE("a layout's overrides, applied to the user's configuration, give that layout") {
  std::vector<std::string> skipped;
  for (const SelftestLayout& layout : selftest_layouts(quickstart(), small_model(), 40, skipped)) {
    INFO(layout.name);
    config::Node tree = quickstart(layout.overrides);
    const TrainConfig again = bind_train_config(tree);
    for (const Pass pass : {Pass::kActorUpdate, Pass::kOldLogProb, Pass::kRefLogProb}) {
      const BatchingRule a = batching_rule(layout.config, pass), b = batching_rule(again, pass);
      CHECK(a.sizes.world == b.sizes.world);
      CHECK(a.sizes.tp == b.sizes.tp);
      CHECK(a.sizes.cp == b.sizes.cp);
      CHECK(a.dcp.has_value() == b.dcp.has_value());
      if (a.dcp) CHECK(a.dcp->max_seqlen_per_rank == b.dcp->max_seqlen_per_rank);
      CHECK(a.use_dynamic_bsz == b.use_dynamic_bsz);
      if (!a.dcp && a.use_dynamic_bsz) CHECK(a.max_token_len_per_gpu == b.max_token_len_per_gpu);
    }
  }
}

TEST_CASE("a larger world of the user's gives larger layouts") {
  std::vector<std::string> skipped;
  const auto layouts =
      selftest_layouts(quickstart({"trainer.n_gpus_per_node=12"}), small_model(), 40, skipped);
  int64_t largest = 0;
  for (const SelftestLayout& layout : layouts) {
    if (layout.name != "your own") largest = std::max(largest, layout.config.world_size());
  }
  CHECK(largest == 12);
}

TEST_CASE("responses of one length are cut to several; uneven ones stay") {
  auto batch = samples({8, 8, 8, 8, 8, 8}, 0);
  REQUIRE(vary_lengths(batch));
  const std::vector<int64_t> want{8, 6, 4, 2, 8, 6};
  for (size_t i = 0; i < batch.size(); ++i) {
    CHECK(batch[i].response_length() == want[i]);
    CHECK(batch[i].response_mask.size() == batch[i].response_ids.size());
    CHECK(batch[i].rollout_log_probs.size() == batch[i].response_ids.size());
  }
  CHECK_FALSE(vary_lengths(batch));
  auto single = samples({1, 1, 1}, 0);
  CHECK_FALSE(vary_lengths(single));
}

TEST_CASE("rewards are drawn only where no group has two different ones") {
  auto batch = samples({1, 2, 3, 4}, 0.5);
  REQUIRE(vary_rewards(batch));
  CHECK(batch[0].reward != batch[1].reward);
  CHECK_FALSE(vary_rewards(batch));
}

TEST_CASE("a self-test's verdict") {
  CHECK(report(1e-12).all_agree());
  CHECK_THAT(to_text(report(1e-12)),
             ContainsSubstring("\n2 layouts agree, largest difference 1.0e-12 (layout 2, DP 1 CP 2)"
                               "\n"));
  CHECK_FALSE(report(1e-8).all_agree());
  const std::string text = to_text(report(1e-8));
  CHECK_THAT(text, ContainsSubstring("DIFFERS  trainer.n_gpus_per_node=2\n"));
  CHECK_THAT(text, ContainsSubstring("\n1 of 2 layouts differ, largest difference 1.0e-08 (layout "
                                     "2, DP 1 CP 2): a bug of ours, please report it with this "
                                     "table\n"));
}

TEST_CASE("numbers that are none are a difference") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const std::vector<double> good{1, 2}, bad{1, nan};
  CHECK(relative_difference(bad, good, 1e-12) == std::numeric_limits<double>::infinity());
  CHECK(relative_difference(bad, bad, 1e-12) == std::numeric_limits<double>::infinity());
  CHECK_FALSE(report(relative_difference(good, bad, 1e-12)).all_agree());
}
