#include "cpu/cpu_backend.h"
#include "layout_case.h"
#include "model/parameters.h"
#include "rollout/generate.h"
#include "setup.h"
#include "support/catch.h"
#include "train/memory_plan.h"

using namespace verlcpp;
using namespace verlcpp::train;
using test::configured;
using test::valid_dynamic_run;

namespace {

const std::string kActor = "actor_rollout_ref.actor.";

// The CPU's pool rounds a block up by at most a quarter of what is asked for.
constexpr double kRounding = 1.25;

}  // namespace

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
  // head's 2 x 32 + 4.
  CHECK(plan.activations == plan.tokens_per_rank * (2 * (130 + 124 + 66 + 81) + 68) * 4);
  // Attention: three tensors and the norm's of 32, 3 x 40 + 4 x 20 + 4, and ten of 20 on their way.
  CHECK(plan.workspace == plan.tokens_per_rank * (4 * 32 + 204 + 200) * 4);
  // Four prompts of 64: 6 x 32 + 3 x 40 + 4 x 20 + 4 + 3 x 27 a token; 100 logits and 3 x 32 each.
  CHECK(plan.decode == (4 * 64 * (192 + 120 + 80 + 4 + 81) + 4 * (100 + 96)) * 4);
  CHECK(plan.total() == numel * 13 + plan.logits + plan.activations + plan.workspace);

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
    CHECK(half.activations == half.tokens_per_rank * (2 * (130 + heads + ffn) + 68) * 4);
    const test::Configured s =
        configured(valid_dynamic_run(), {megatron + "tensor_model_parallel_size=2"});
    const int64_t own_rows = (half.tokens_per_rank + 1) / 2;
    CHECK(
        memory_plan(even, s.config).activations ==
        (2 * (own_rows * 130 + half.tokens_per_rank * (heads + ffn)) + half.tokens_per_rank * 68) *
            4);
  }
}

TEST_CASE("bytes for people") {
  CHECK(human_bytes(17) == "17 B");
  CHECK(human_bytes(1536) == "1.50 KiB");
  CHECK(human_bytes(int64_t{3} << 30) == "3.00 GiB");
  CHECK(human_bytes(int64_t{5000} << 40) == "5000.00 TiB");
}

TEST_CASE("no rank of a layout takes more than its plan in an update") {
  const model::ModelConfig model = test::tiny_model();
  using test::kLongest;
  for (const test::Layout& layout :
       {test::static_cp(1, 1, {}), test::static_cp(4, 2, test::micro_batches_of(2)),
        test::dynamic_cp(4, 2, kLongest / 4),
        test::without_zero1(test::with_tp(test::static_cp(2, 2, {}), 2, false)),
        test::with_tp(test::static_cp(1, 1, {}), 4, true),
        test::with_tp(test::dynamic_cp(4, 2, kLongest / 4), 2, true)}) {
    INFO(layout.name);
    std::vector<std::string> overrides = layout.overrides;
    overrides.push_back("data.max_token_len_per_gpu=48");
    const TrainConfig config = test::make_config(overrides, {});
    const int64_t planned = memory_plan(model, config).total();
    const int64_t peak = test::updates_of(config, DType::kFloat64, 1, false).peak_bytes;
    CHECK(static_cast<double>(peak) < kRounding * static_cast<double>(planned));
    CHECK(static_cast<double>(peak) > 0.3 * static_cast<double>(planned));
  }
}

TEST_CASE("a rollout takes no more than its plan") {
  const model::ModelConfig model = test::tiny_model();
  const TrainConfig config = test::make_config({}, {});
  const MemoryPlan plan = memory_plan(model, config);
  cpu::CpuBackend backend;
  const model::ParameterLayout layout(model, 1);
  const model::ParameterBuffer weights(backend, layout, DType::kFloat64, MemoryTag::kWeights);
  initialize(backend, weights, 1);
  const model::Transformer transformer(backend, model, DType::kFloat64);
  const std::vector<int32_t> prompt(24, 5);
  std::vector<rollout::Request> requests;
  for (uint32_t i = 0; i < 12; ++i) requests.push_back({i, 0, prompt});
  backend.reset_peak_bytes();
  const int64_t before = backend.peak_bytes();
  rollout::GenerateOptions options;
  options.max_response_length = 24;
  rollout::generate(backend, transformer, weights, requests, options, [] { return true; });
  const auto peak = static_cast<double>(backend.peak_bytes() - before);
  CHECK(peak < kRounding * static_cast<double>(plan.kv_cache + plan.decode));
  CHECK(peak > 0.3 * static_cast<double>(plan.kv_cache + plan.decode));
}
