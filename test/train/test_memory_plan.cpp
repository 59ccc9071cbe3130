#include "cpu/cpu_backend.h"
#include "layout_case.h"
#include "memory_case.h"
#include "model/parameters.h"
#include "setup.h"
#include "support/catch.h"
#include "train/memory_moments.h"
#include "train/memory_plan.h"

using namespace verlcpp;
using namespace verlcpp::train;
using test::configured;
using test::valid_dynamic_run;

namespace {

const std::string kActor = "actor_rollout_ref.actor.";

}  // namespace

TEST_CASE("every item of a step's memory is within a tenth of its plan") {
  for (const test::MemoryCase& c : test::memory_cases()) {
    const TrainConfig config = test::memory_config(c, "cpu", DType::kFloat32);
    const MemoryBytes planned = memory_plan(c.model, config).peak();
    const test::MeasuredStep step =
        test::measured_step(c, config, [](const auto&, const auto& host) {
          return parallel::host_device(std::make_unique<cpu::CpuBackend>(), host);
        });
    INFO(c.name << ": " << test::beyond_a_tenth(planned, step.peak));
    CHECK(test::beyond_a_tenth(planned, step.peak).empty());
  }
}

TEST_CASE("on a GPU gate and up take no memory in a forward of many rows") {
  const model::ModelConfig m = test::tiny_model();  // ffn 24
  const auto workspace = [&](int64_t rows, bool cuda) {
    MemoryShapes shapes(m, DType::kBFloat16, {});
    shapes.cuda = cuda;
    return log_prob_moments(shapes, {.all = rows, .head = 0}, 1).at(0).bytes[MemoryTag::kWorkspace];
  };
  CHECK(workspace(1023, true) == workspace(1023, false));
  CHECK(workspace(4096, false) - workspace(4096, true) == 4096 * 2 * 24 * 2);
  // A micro-batch of a row less than that needs them.
  CHECK(workspace(1024, true) >= workspace(1023, true));
  CHECK(workspace(1024, true) < workspace(1024, false));
}

TEST_CASE("what a run holds all the time, by hand") {
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
  CHECK(plan.peak()[MemoryTag::kWeights] == numel * 8);
  // The log-prob passes cut all 32 responses at once.
  CHECK(plan.peak()[MemoryTag::kLogits] == (8 * 128 + 32 * (2 * 8 - 1)) / 8 * 100 * 4);
  // 32 responses over 8 ranks, 4 blocks of 64 positions each, and one; 2 layers, K and V, 2 heads
  // of 10.
  CHECK(plan.peak()[MemoryTag::kKv] == (4 * 4 + 1) * 64 * 2 * 2 * 2 * 10 * 4);
  // Layer: 4 x 32 + 2, 2 x 40 + 2 x 20 + 4, QK norm 40 + 20 + 4 + 2, 3 x 27; two layers, the last
  // one's output, and the head's 2 x 32 + 4.
  CHECK(plan.peak()[MemoryTag::kSaved] ==
        plan.tokens_per_rank * (2 * (130 + 124 + 66 + 81) + 32 + 68) * 4);
  CHECK(plan.total() > numel * 13);

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
}

TEST_CASE("bytes for people") {
  CHECK(human_bytes(17) == "17 B");
  CHECK(human_bytes(1536) == "1.50 KiB");
  CHECK(human_bytes(int64_t{3} << 30) == "3.00 GiB");
  CHECK(human_bytes(int64_t{5000} << 40) == "5000.00 TiB");
}
