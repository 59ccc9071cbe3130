#include "base/error.h"
#include "model/model_config.h"
#include "setup.h"
#include "support/catch.h"
#include "train/banner.h"
#include "train/dry_run.h"
#include "train/first_step.h"
#include "train/memory_plan.h"
#include "train/validate.h"

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

TEST_CASE("lengths of a first step") {
  const std::vector<std::string> small = {
      kActor + "ppo_mini_batch_size=2", "actor_rollout_ref.rollout.n=2",
      "data.max_response_length=100", "data.train_batch_size=2"};
  test::Configured c = configured(valid_run(), small);
  c.config.data.shuffle = false;
  Inputs inputs;
  CHECK(first_step_lengths(c.config, inputs).empty());
  inputs.prompt_ids = {{1, 2, 3}, {1}, {5, 6}};
  using Lengths = std::vector<int64_t>;
  CHECK(first_step_lengths(c.config, inputs) == Lengths{3 + 25, 3 + 50, 1 + 75, 1 + 100});
  CHECK(first_step_lengths(c.config, inputs, 7) == Lengths{3 + 7, 3 + 7, 1 + 7, 1 + 7});
  // Those of the run's own order.
  c.config.data.shuffle = true;
  c.config.data.seed = 3;
  const auto rows = data::PromptOrder(3, 2, true, 3).indices(0);
  CHECK(first_step_lengths(c.config, inputs, 7)[2] ==
        static_cast<int64_t>(inputs.prompt_ids[static_cast<size_t>(rows[1])].size()) + 7);
  // Each mini-batch has responses of all lengths.
  c.config.actor_rollout_ref.actor.ppo_mini_batch_size = 1;
  c.config.data.shuffle = false;
  CHECK(first_step_lengths(c.config, inputs) == Lengths{3 + 50, 3 + 100, 1 + 50, 1 + 100});
}

TEST_CASE("the dry run lists every rank and both schedules") {
  const test::Configured c = configured(valid_dynamic_run());
  Inputs inputs;
  inputs.model = model::read_model_config(c.config.actor_rollout_ref.model.path);
  inputs.rows.resize(8);
  inputs.prompt_ids = {{1, 2}, {3}, {4}, {5}, {6}, {7}, {8}, {9}};
  inputs.total_steps = 7;
  const std::string text = dry_run_report(c.config, inputs);
  CHECK_THAT(text, ContainsSubstring("rank = (dp rank x 4 + cp rank) x 1 + tp rank; one DPxCP pool "
                                     "of 8 ranks\n"
                                     "rank  tp  cp  dp  pool rank\n"
                                     "   0   0   0   0          0\n") &&
                       ContainsSubstring("   7   0   3   1          7\n"));
  CHECK_THAT(
      text, ContainsSubstring("Qwen3ForCausalLM") && ContainsSubstring("data: 8 prompts, 7 steps"));
  // 16 sequences of 256 on 8 ranks of 128: four at a time, each on a group of two.
  CHECK_THAT(text, ContainsSubstring("16 sequences, 4 micro-batches, 4096 tokens") &&
                       ContainsSubstring("CP groups 16 of size 2"));
  CHECK_THAT(text, ContainsSubstring("schedule of the first step, its prompts with responses "
                                     "spread evenly\n  old_log_prob: 32 sequences, ") &&
                       ContainsSubstring("\n  mini-batch 2: 16 sequences, "));
  CHECK_THAT(text, !ContainsSubstring("tokens at most\n"));
  const std::string assumed = dry_run_report(c.config, inputs, 10);
  CHECK_THAT(assumed, ContainsSubstring("worst case    responses of 10 tokens at most\n"));
  // All 32 sequences of 11 tokens, and 4 more of the one longer prompt, 7 times.
  CHECK_THAT(assumed, ContainsSubstring("with responses of 10 tokens\n") &&
                          ContainsSubstring("estimated totals of 7 such steps: 224 responses, " +
                                            std::to_string(7 * (32 * 11 + 4)) +
                                            " tokens, 14 updates, 21 micro-batches"));
}

TEST_CASE("memory under an assumed length is that of a run so configured") {
  const test::Configured c = configured(valid_dynamic_run());
  Inputs inputs;
  inputs.prompt_ids = {{1, 2}, {3}};
  inputs.validation.ids = {{1, 2, 3}};
  const TrainConfig assumed = with_responses(c.config, inputs, 10);
  CHECK(longest_sequence(assumed) == 13);
  const auto m = model::read_model_config(c.config.actor_rollout_ref.model.path);
  const test::Configured same =
      configured(valid_dynamic_run(), {"data.max_response_length=10", "data.max_prompt_length=3"});
  CHECK(memory_plan(m, assumed).peak().by_tag == memory_plan(m, same.config).peak().by_tag);
  CHECK(memory_plan(m, assumed).total() < memory_plan(m, c.config).total());
}

TEST_CASE("an assumed length that responses cannot have is a problem among the others") {
  const test::Configured c = configured(valid_dynamic_run(), {"algorithm.adv_estimator=rloo"});
  for (const int64_t length : {int64_t{0}, int64_t{193}}) {
    CHECK_THROWS_WITH(validate_dry_run(c.config, c.tree, length),
                      ContainsSubstring("the configuration has 2 problems:") &&
                          ContainsSubstring("--assume-response-length " + std::to_string(length) +
                                            ": must be from 1 to data.max_response_length = 192"));
  }
  CHECK_THROWS_WITH(validate_dry_run(c.config, c.tree, 192), ContainsSubstring("has 1 problem:"));
}
