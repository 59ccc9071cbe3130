#include "base/error.h"
#include "model/model_config.h"
#include "model/parameters.h"
#include "setup.h"
#include "support/catch.h"
#include "train/banner.h"
#include "train/dry_run.h"
#include "train/memory_plan.h"

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

TEST_CASE("memory of one rank by hand") {
  const test::Configured c = configured(valid_dynamic_run(), {kActor + "use_kl_loss=True"});
  const model::ModelConfig m = model::read_model_config(c.config.actor_rollout_ref.model.path);
  const MemoryPlan plan = memory_plan(m, c.config);
  const int64_t numel = model::ParameterLayout(m, 8).numel();
  CHECK(plan.parameters == m.parameter_count());
  CHECK(plan.weights == numel * 4);
  CHECK(plan.gradient == numel * 4);
  CHECK(plan.optimizer == numel);  // 8 bytes each of an eighth
  CHECK(plan.reference == numel * 4);
  // A group of all 8 ranks: its budget, and 16 documents aligned to 2 x 8.
  CHECK(plan.tokens_per_rank == (8 * 128 + 16 * (2 * 8 - 1)) / 8);
  CHECK(plan.logits == plan.tokens_per_rank * 100 * 4);
  // 32 responses over 8 ranks; 2 layers, K and V, 2 heads of 10, 256 positions.
  CHECK(plan.kv_cache == 4 * 256 * 2 * 2 * 2 * 10 * 4);
  // Layer: 4 x 32 + 2, 2 x 40 + 2 x 20 + 4, QK norm 40 + 20 + 4 + 2, 3 x 27; two layers, and the
  // final norm's 2 x 32 + 1.
  CHECK(plan.activations == plan.tokens_per_rank * (2 * (130 + 124 + 66 + 81) + 65) * 4);
  CHECK(plan.total() == numel * 13 + plan.logits + plan.activations);

  SECTION("no reference without a KL term; float64 doubles") {
    const test::Configured d = configured(valid_dynamic_run(), {kActor + "megatron.dtype=float64"});
    CHECK(memory_plan(m, d.config).reference == 0);
    CHECK(memory_plan(m, d.config).weights == numel * 8);
  }
  SECTION("half precision keeps gradient and moments in float32, and a master copy") {
    const test::Configured d =
        configured(valid_dynamic_run(), {kActor + "megatron.dtype=bfloat16"});
    CHECK(memory_plan(m, d.config).weights == numel * 2);
    CHECK(memory_plan(m, d.config).gradient == numel * 4);
    CHECK(memory_plan(m, d.config).optimizer == numel * 12 / 8);
  }
  SECTION("an optimizer that is not distributed is whole on every rank") {
    const test::Configured d =
        configured(valid_dynamic_run(), {kActor + "megatron.use_distributed_optimizer=False"});
    CHECK(memory_plan(m, d.config).optimizer == numel * 8);
  }
  SECTION("a TP rank holds half of the heads, the ffn and the vocabulary") {
    const std::string megatron = kActor + "megatron.";
    model::ModelConfig even = m;
    even.ffn = 28;
    const test::Configured d = configured(
        valid_dynamic_run(),
        {megatron + "tensor_model_parallel_size=2", megatron + "sequence_parallel=False"});
    const MemoryPlan half = memory_plan(even, d.config);
    CHECK(half.weights == model::ParameterLayout(even, 4, {.size = 2, .rank = 1}).numel() * 4);
    // A group of all 4 pool ranks, 16 documents aligned to 2 x 2 x 4.
    CHECK(half.tokens_per_rank == (4 * 128 + 16 * (2 * 2 * 4 - 1)) / 4);
    CHECK(half.logits == half.tokens_per_rank * 50 * 4);
    CHECK(half.kv_cache == 8 * 256 * 2 * 2 * 1 * 10 * 4);
    const int64_t heads = 62 + 33, ffn = 3 * 14;
    CHECK(half.activations == half.tokens_per_rank * (2 * (130 + heads + ffn) + 65) * 4);
    const test::Configured s =
        configured(valid_dynamic_run(), {megatron + "tensor_model_parallel_size=2"});
    const int64_t own_rows = (half.tokens_per_rank + 1) / 2;
    CHECK(
        memory_plan(even, s.config).activations ==
        (2 * (own_rows * 130 + half.tokens_per_rank * (heads + ffn)) + half.tokens_per_rank * 65) *
            4);
  }
}

TEST_CASE("bytes for people") {
  CHECK(human_bytes(17) == "17 B");
  CHECK(human_bytes(1536) == "1.50 KiB");
  CHECK(human_bytes(int64_t{3} << 30) == "3.00 GiB");
  CHECK(human_bytes(int64_t{5000} << 40) == "5000.00 TiB");
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
