#include "base/error.h"
#include "model/model_config.h"
#include "setup.h"
#include "support/catch.h"
#include "train/banner.h"
#include "train/dry_run.h"

using namespace verlcpp;
using namespace verlcpp::train;
using Catch::Matchers::ContainsSubstring;
using test::configured;
using test::valid_dynamic_run;
using test::valid_run;

namespace {

const std::string kActor = "actor_rollout_ref.actor.";
const std::string kLimit = kActor + "megatron.max_seqlen_per_dp_cp_rank";

std::string banner_text(const test::Configured& c) {
  std::string text;
  for (const std::string& line : banner(c.config, c.tree)) text += line + "\n";
  return text;
}

std::vector<std::string> warnings(const std::vector<std::string>& more) {
  const test::Configured c = configured(valid_dynamic_run(), more);
  return budget_warnings(c.config, c.tree);
}

}  // namespace

TEST_CASE("the banner states layout, budget and mini-batch arithmetic in numbers") {
  const std::string text =
      banner_text(configured(valid_run(), {"data.max_token_len_per_gpu=4096"}));
  CHECK_THAT(text, ContainsSubstring(
                       "world 8 = nnodes 1 x n_gpus_per_node 8 x ranks_per_gpu 1 on cpu; TP 1, "
                       "PP 1, CP 4, DP 2; DPxCP pool 8; optimizer distributed over the pool"));
  CHECK_THAT(
      banner_text(configured(valid_run(), {kActor + "megatron.tensor_model_parallel_size=2",
                                           kActor + "megatron.use_distributed_optimizer=False"})),
      ContainsSubstring("TP 2, PP 1, CP 4, DP 1; DPxCP pool 4; sequence parallel\n"));
  CHECK_THAT(text, ContainsSubstring("token budget: 4096 tokens per rank"));
  CHECK_THAT(text, ContainsSubstring("x context_parallel_size 4 = 16384 tokens per pack"));
  CHECK_THAT(text, ContainsSubstring("static CP, 1 samples each"));
  CHECK_THAT(text, ContainsSubstring(
                       "8 prompts x n 4 = 32 responses a step; mini-batch 4 prompts x n 4 = 16 "
                       "responses; 2 mini-batches x 1 epochs = 2 updates a step"));
}

TEST_CASE("the banner states the dynamic CP limit") {
  const std::string text = banner_text(configured(valid_dynamic_run()));
  CHECK_THAT(text, ContainsSubstring("dynamic CP, limit 128 tokens per rank"));
  CHECK_THAT(text, ContainsSubstring("longest sequence 128 x 8 = 1024 tokens"));
  CHECK_THAT(text, ContainsSubstring("prompt + response can reach 256"));
  CHECK_THAT(text, !ContainsSubstring("token budget"));
  CHECK_THAT(
      banner_text(
          configured(valid_dynamic_run(), {kActor + "megatron.dynamic_cp_scheduler=balanced"})),
      ContainsSubstring("dynamic CP balanced by verl's workload, limit 128 tokens per rank"));
}

TEST_CASE("warnings about the limit against the per-GPU budget") {
  SECTION("none without a stated budget, and none when they agree") {
    CHECK(warnings({}).empty());
    CHECK(warnings({"data.max_token_len_per_gpu=128"}).empty());
    CHECK(warnings({kActor + "use_dynamic_bsz=True", kActor + "ppo_max_token_len_per_gpu=128"})
              .empty());
  }
  SECTION("different") {
    const auto lines = warnings({"data.max_token_len_per_gpu=100"});
    REQUIRE(lines.size() == 1);
    CHECK_THAT(lines[0], ContainsSubstring(kLimit + " = 128") &&
                             ContainsSubstring("differs from the per-GPU token budget") &&
                             ContainsSubstring("100"));
  }
  SECTION("the documented mistake: the whole packed budget") {
    const auto lines = warnings({kActor + "ppo_max_token_len_per_gpu=32"});
    REQUIRE(lines.size() == 1);
    CHECK_THAT(lines[0], ContainsSubstring("equals the whole packed budget") &&
                             ContainsSubstring("the documented mistake") &&
                             ContainsSubstring("set it to 32"));
  }
}

TEST_CASE("the reference's own limit is held against its budget, when it is used") {
  const std::string ref_limit = "actor_rollout_ref.ref.megatron.max_seqlen_per_dp_cp_rank";
  const std::vector<std::string> own = {"data.max_token_len_per_gpu=128", ref_limit + "=512"};
  CHECK(warnings(own).empty());
  std::vector<std::string> used = own;
  used.push_back(kActor + "use_kl_loss=True");
  const auto lines = warnings(used);
  REQUIRE(lines.size() == 1);
  CHECK_THAT(lines[0], ContainsSubstring(ref_limit + " = 512") &&
                           ContainsSubstring("equals the whole packed budget") &&
                           ContainsSubstring("ref.log_prob_max_token_len_per_gpu = 128"));
  // One line about the actor says it all when the reference has the same limit.
  CHECK(warnings({"data.max_token_len_per_gpu=100", kActor + "use_kl_loss=True"}).size() == 1);
}

TEST_CASE("a balanced scheduler without effect or measured costs is warned of, once") {
  const std::string scheduler = "megatron.dynamic_cp_scheduler";
  const auto warned = [](const std::vector<std::string>& base,
                         const std::vector<std::string>& more) {
    const test::Configured c = configured(base, more);
    return scheduler_warnings(c.config, c.tree);
  };
  const std::vector<std::string> reference{kActor + "use_kl_loss=True"};
  CHECK(warned(valid_dynamic_run(), reference).empty());
  const auto unmeasured =
      warned(valid_dynamic_run(), {reference[0], kActor + scheduler + "=balanced"});
  REQUIRE(unmeasured.size() == 1);
  CHECK_THAT(unmeasured[0], ContainsSubstring("charges nothing for a micro-batch"));
  const auto off = warned(valid_run(), {kActor + scheduler + "=balanced"});
  REQUIRE(off.size() == 1);
  CHECK_THAT(off[0], ContainsSubstring("has no effect: dynamic_context_parallel is off"));
  const auto of_ref = warned(valid_dynamic_run(),
                             {reference[0], "actor_rollout_ref.ref." + scheduler + "=balanced"});
  REQUIRE(of_ref.size() == 1);
  CHECK_THAT(of_ref[0], ContainsSubstring("actor_rollout_ref.ref.megatron."));
}

TEST_CASE("lengths of a first mini-batch") {
  const test::Configured c =
      configured(valid_run(), {kActor + "ppo_mini_batch_size=2", "actor_rollout_ref.rollout.n=2",
                               "data.max_response_length=100"});
  Inputs inputs;
  CHECK(first_lengths(c.config, inputs).empty());
  inputs.prompt_ids = {{1, 2, 3}, {1}, {5, 6}};
  CHECK(first_lengths(c.config, inputs) == std::vector<int64_t>{3 + 25, 3 + 50, 1 + 75, 1 + 100});
}

TEST_CASE("the dry run lists every rank and both schedules") {
  const test::Configured c = configured(valid_dynamic_run());
  Inputs inputs;
  inputs.model = model::read_model_config(c.config.actor_rollout_ref.model.path);
  inputs.rows.resize(3);
  inputs.prompt_ids = {{1, 2}, {3}, {4}};
  inputs.total_steps = 7;
  const std::string text = dry_run_report(c.config, inputs);
  CHECK_THAT(text, ContainsSubstring("rank  dp  cp\n   0   0   0\n") &&
                       ContainsSubstring("   7   1   3\n"));
  CHECK_THAT(
      text, ContainsSubstring("Qwen3ForCausalLM") && ContainsSubstring("data: 3 prompts, 7 steps"));
  // 16 sequences of 256 on 8 ranks of 128: four at a time, each on a group of two.
  CHECK_THAT(text, ContainsSubstring("16 sequences, 4 micro-batches, 4096 tokens") &&
                       ContainsSubstring("CP groups 16 of size 2"));
  CHECK_THAT(text,
             ContainsSubstring("the first prompts with responses spread evenly: 16 sequences"));
}
