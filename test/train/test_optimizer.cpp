#include "base/rng.h"
#include "cpu/cpu_backend.h"
#include "layout_case.h"
#include "parallel/thread_ranks.h"
#include "support/catch.h"
#include "train/optimizer.h"

namespace verlcpp::test {
namespace {

constexpr int64_t kSteps = 2;
constexpr double kLr = 0.01;

/// Random numbers in every tensor of a buffer, zeros between them.
std::vector<double> in_tensors(const model::ParameterLayout& layout, uint64_t stream) {
  std::vector<double> flat(static_cast<size_t>(layout.numel()));
  const PhiloxKey key = rng_key(23, RngPurpose::kWeightInit);
  for (const model::ParamSpec& spec : layout.specs()) {
    for (int64_t i = spec.offset; i < spec.range().end(); ++i) {
      flat[static_cast<size_t>(i)] = normal(key, stream, static_cast<uint64_t>(i));
    }
  }
  return flat;
}

model::ParameterBuffer filled(Backend& backend, const model::ParameterLayout& layout, DType dtype,
                              uint64_t stream) {
  model::ParameterBuffer buffer(backend, layout, dtype, MemoryTag::kWeights);
  backend.copy(buffer.flat(), upload_as(backend, DType::kFloat64, in_tensors(layout, stream),
                                        {layout.numel()}, MemoryTag::kWorkspace));
  return buffer;
}

train::Optimizer::Options options_of(bool distributed) {
  return {.weight_decay = 0.5, .clip_grad = 0, .distributed = distributed};
}

/// The weights after kSteps of AdamW tensor by tensor.
std::vector<double> stepped_apart(Backend& backend, const model::ParameterLayout& layout,
                                  DType dtype) {
  const DType wide = model::statistics_dtype(dtype);
  const auto weights = filled(backend, layout, dtype, 0);
  const model::ParameterBuffer master =
      dtype == wide ? weights
                    : model::ParameterBuffer(backend, layout, wide, MemoryTag::kOptimizer);
  if (dtype != wide) backend.copy(master.flat(), weights.flat());
  const model::ParameterBuffer m(backend, layout, wide, MemoryTag::kOptimizer);
  const model::ParameterBuffer v(backend, layout, wide, MemoryTag::kOptimizer);
  for (int64_t step = 1; step <= kSteps; ++step) {
    const auto grad = filled(backend, layout, wide, static_cast<uint64_t>(step));
    for (const model::ParamSpec& spec : layout.specs()) {
      const model::FlatRange at = spec.range();
      backend.adamw(weights.slice(at), master.slice(at), grad.slice(at), m.slice(at), v.slice(at),
                    {.lr = kLr, .weight_decay = spec.shape.size() > 1 ? 0.5 : 0.0, .step = step});
    }
  }
  return download(backend, weights.flat());
}

/// The same by the optimizer of a pool; each rank's weights.
std::vector<std::vector<double>> stepped_by_pool(int pool, DType dtype, bool distributed) {
  std::vector<std::vector<double>> weights_of(static_cast<size_t>(pool));
  parallel::run_thread_ranks(
      {.world = pool}, [&](const parallel::Topology& me, parallel::RankCommunicators comm) {
        cpu::CpuBackend backend;
        const model::ParameterLayout layout(tiny_model(), pool);
        const model::Transformer transformer(backend, tiny_model(), dtype);
        const train::Engine engine{backend, transformer, me, comm};
        const auto weights = filled(backend, layout, dtype, 0);
        train::Optimizer optimizer(engine, layout, dtype, options_of(distributed));
        optimizer.take_master(weights);
        for (int64_t step = 1; step <= kSteps; ++step) {
          const auto grad =
              filled(backend, layout, model::statistics_dtype(dtype), static_cast<uint64_t>(step));
          optimizer.step(weights, grad, kLr);
        }
        weights_of[static_cast<size_t>(me.rank())] = download(backend, weights.flat());
      });
  return weights_of;
}

}  // namespace

TEST_CASE("a pool steps every tensor as AdamW does, with decay where it is due, zeros stay zeros") {
  const int pool = GENERATE(1, 3, 8);  // shares begin within tensors with decay and without
  cpu::CpuBackend backend;
  const model::ParameterLayout layout(tiny_model(), pool);
  for (const DType dtype : {DType::kFloat64, DType::kFloat32, DType::kBFloat16}) {
    const std::vector<double> wanted = stepped_apart(backend, layout, dtype);
    for (const bool distributed : {true, false}) {
      INFO(pool << " ranks, " << name_of(dtype) << (distributed ? ", in shares" : ""));
      for (const std::vector<double>& got : stepped_by_pool(pool, dtype, distributed)) {
        CHECK(got == wanted);
      }
    }
  }
}

TEST_CASE("an optimizer without an eps is refused: zeros between tensors would become NaN") {
  cpu::CpuBackend backend;
  const model::ParameterLayout layout(tiny_model(), 1);
  const model::Transformer transformer(backend, tiny_model(), DType::kFloat64);
  parallel::run_thread_ranks(
      {}, [&](const parallel::Topology& me, parallel::RankCommunicators comm) {
        const train::Engine engine{backend, transformer, me, comm};
        CHECK_THROWS_AS(train::Optimizer(engine, layout, DType::kFloat64, {.eps = 0}),
                        std::logic_error);
      });
}

}  // namespace verlcpp::test
