// The layout case on GPUs against one rank on the CPU: with several ranks sharing GPU 0, and over
// NCCL as far as the GPUs of the machine go.

#include <cuda_runtime_api.h>

#include "cuda/runtime.h"
#include "layout_case.h"
#include "support/catch.h"

using namespace verlcpp;
using namespace verlcpp::test;

namespace {

train::LayoutResult on_gpus(const train::TrainConfig& config, const Layout& layout, DType dtype,
                            int64_t ranks_per_gpu, const model::ModelConfig& model) {
  return updates_of(
      config, dtype, 1, layout.shuffle_packing,
      [&](const auto& me, const auto& host) { return cuda::make_device(me, host, ranks_per_gpu); },
      model);
}

train::LayoutResult on_one_gpu(const Layout& layout, DType dtype,
                               const model::ModelConfig& model = tiny_model()) {
  const train::TrainConfig config = make_config(layout.overrides, {});
  return on_gpus(config, layout, dtype, config.world_size(), model);
}

/// Every way to run these layouts here: its name and its result.
void for_each_run(const std::vector<Layout>& layouts, DType dtype, const model::ModelConfig& model,
                  const std::function<void(const std::string&, const train::LayoutResult&)>& see) {
  int gpus = 0;
  cudaGetDeviceCount(&gpus);
  for (const Layout& layout : layouts) {
    const train::TrainConfig config = make_config(layout.overrides, {});
    const int64_t world = config.world_size();
    see(layout.name + ", one GPU", on_one_gpu(layout, dtype, model));
    if (world > 1 && world <= gpus) {
      see(layout.name + ", NCCL", on_gpus(config, layout, dtype, 1, model));
    }
  }
}

/// The design's bound of the first mini-batch's gradient: 1.25 times what one rank in bfloat16
/// differs from float32. AdamW's first step makes a sign of every rounding, so the weights after
/// the last mini-batch are only held to twice that (1.6 is the largest of these layouts).
void check_bfloat16(const std::vector<Layout>& layouts, const model::ModelConfig& model) {
  const train::LayoutResult want =
      updates_of(make_config({}, {}), DType::kFloat32, 1, false, {}, model);
  const auto gradient = [&](const train::LayoutResult& got) {
    return train::relative_difference(got.gradients.at(0), want.gradients.at(0), 1e-6);
  };
  const auto weights = [&](const train::LayoutResult& got) {
    return train::relative_difference(got.weights, want.weights, 1e-6);
  };
  const train::LayoutResult alone = on_one_gpu(static_cp(1, 1, {}), DType::kBFloat16, model);
  CHECK(gradient(alone) < 2e-2);
  CHECK(weights(alone) < 2e-2);
  for_each_run(layouts, DType::kBFloat16, model,
               [&](const std::string& name, const train::LayoutResult& got) {
                 INFO(name << ", one rank " << gradient(alone) << ", " << weights(alone));
                 CHECK(gradient(got) < 1.25 * gradient(alone));
                 CHECK(weights(got) < 2 * weights(alone));
               });
}

}  // namespace

// Few launches: for compute-sanitizer.

namespace {

void check_small(const Layout& layout) {
  const train::LayoutResult want = updates_of(make_config({}, {}), DType::kFloat32, 1, false);
  CHECK(difference(on_one_gpu(layout, DType::kFloat32), want, 1e-6).largest() < 1e-5);
  const train::LayoutResult half = on_one_gpu(layout, DType::kBFloat16);
  CHECK(train::relative_difference(half.gradients.at(0), want.gradients.at(0), 1e-6) < 2.5e-2);
}

}  // namespace

TEST_CASE("one rank on a GPU gives the CPU's numbers", "[small][layers][one_rank]") {
  check_small(static_cp(1, 1, {}));
}

TEST_CASE("a dynamic CP group of two on a GPU gives the CPU's numbers", "[small][layers]") {
  check_small(dynamic_cp(2, 1, kLongest / 2));
}

TEST_CASE("layouts on GPUs give the numbers of one CPU rank in float32", "[layouts_float32]") {
  const train::LayoutResult want = updates_of(make_config({}, {}), DType::kFloat32, 1, false);
  for_each_run(all_layouts(), DType::kFloat32, tiny_model(),
               [&](const std::string& name, const train::LayoutResult& got) {
                 INFO(name);
                 const train::LayoutDifference d = difference(got, want, 1e-6);
                 CHECK(d.losses < 1e-5);
                 CHECK(d.grad_norms < 1e-5);
                 CHECK(d.gradients < 1e-5);
                 CHECK(d.weights < 1e-5);
               });
}

// Heads of 8 numbers are cuDNN's; on a vocabulary of 29 the head's products pass in memory.
TEST_CASE("layouts on GPUs stay within bfloat16's own error", "[layouts_bfloat16]") {
  model::ModelConfig model = tiny_model();
  model.head_dim = 8;
  std::vector<Layout> layouts{static_cp(1, 1, micro_batches_of(1)), static_cp(2, 2, {}),
                              dynamic_cp(2, 1, kLongest / 2), dynamic_cp(6, 3, kLongest / 6),
                              with_tp(dynamic_cp(4, 2, kLongest / 4), 2, true)};
  const size_t plain = layouts.size();
  for (size_t i = 0; i < plain; ++i) layouts.push_back(with_fused_head(layouts[i]));
  check_bfloat16(layouts, model);
}

// On a whole vocabulary or half of it the head's products stay in registers: 528 are two tiles of
// 256 and a tail of 16, 264 one and a tail of 8; a quarter, 132, passes in memory.
TEST_CASE("layouts on GPUs stay within bfloat16's own error with the head in registers",
          "[layouts_registers]") {
  model::ModelConfig model = tiny_model();
  model.head_dim = 8;
  model.vocab = 528;
  std::vector<Layout> layouts = all_layouts();
  layouts.push_back(with_fused_head(static_cp(2, 2, {})));
  layouts.push_back(with_fused_head(dynamic_cp(6, 3, kLongest / 6)));
  for (const bool sequence_parallel : {false, true}) {
    layouts.push_back(with_fused_head(with_tp(static_cp(1, 1, {}), 2, sequence_parallel)));
    layouts.push_back(with_fused_head(with_tp(static_cp(1, 1, {}), 4, sequence_parallel)));
  }
  check_bfloat16(layouts, model);
}
