#include <algorithm>
#include <cmath>
#include <limits>

#include "cpu/cpu_backend.h"
#include "model/tiny_model.h"
#include "model/transformer.h"
#include "support/catch.h"

namespace verlcpp::test {
namespace {

// A model, two packed documents and the loss as a function of the weights, on one rank.
class LossFunction {
 public:
  LossFunction(const model::ModelConfig& config, const std::vector<int64_t>& lengths)
      : layout(config, 1),
        weights(backend_, layout, DType::kFloat64, MemoryTag::kWeights),
        documents_(random_documents(config, lengths)),
        transformer_(backend_, config, DType::kFloat64),
        attention_(backend_, nullptr),
        batch_(transformer_, whole_group(1, documents_), 0, 1, documents_) {
    set_flat(backend_, weights, random_weights(layout));
  }

  double value() {
    return batch_.loss(backend_, transformer_.forward(weights, batch_.device(), attention_));
  }

  // The value with one weight moved by `step`.
  double value_at(int64_t index, double step) {
    const Tensor weight = weights.flat().slice(index, {1});
    const std::vector<double> old = download(backend_, weight);
    const std::vector<double> moved{old[0] + step};
    backend_.write(weight, std::as_bytes(std::span(moved)));
    const double result = value();
    backend_.write(weight, std::as_bytes(std::span(old)));
    return result;
  }

  // `passes` training passes accumulated into one buffer.
  std::vector<double> gradient(int passes) {
    const model::ParameterBuffer grad(backend_, layout, DType::kFloat64, MemoryTag::kMainGrad);
    for (int i = 0; i < passes; ++i) {
      transformer_.train(weights, batch_.device(), attention_, {}, batch_.token_loss(backend_),
                         grad);
    }
    return download(backend_, grad.flat());
  }

  // Without adding, into parameters' places that hold NaN.
  std::vector<double> gradient_over_rubbish() {
    const model::ParameterBuffer grad(backend_, layout, DType::kFloat64, MemoryTag::kMainGrad);
    for (const model::ParamSpec& spec : layout.specs()) {
      const std::vector<double> rubbish(static_cast<size_t>(numel_of(spec.shape)),
                                        std::numeric_limits<double>::quiet_NaN());
      backend_.write(grad.at(spec.name), std::as_bytes(std::span(rubbish)));
    }
    transformer_.train(weights, batch_.device(), attention_, {}, batch_.token_loss(backend_), grad,
                       false);
    return download(backend_, grad.flat());
  }

 private:
  cpu::CpuBackend backend_;

 public:
  const model::ParameterLayout layout;
  const model::ParameterBuffer weights;

 private:
  Documents documents_;
  model::Transformer transformer_;
  model::ContextParallelAttention attention_;
  RankBatch batch_;
};

// Fourth-order central difference.
double numeric_derivative(LossFunction& f, int64_t index) {
  constexpr double kStep = 2e-3;
  const double near = f.value_at(index, kStep) - f.value_at(index, -kStep);
  const double far = f.value_at(index, 2 * kStep) - f.value_at(index, -2 * kStep);
  return (8 * near - far) / (12 * kStep);
}

void check_gradient(const model::ModelConfig& config) {
  LossFunction f(config, {7, 4});
  const std::vector<double> gradient = f.gradient(1);
  int64_t sampled = 0, wrong = 0, zero = 0;
  for (const model::ParamSpec& spec : f.layout.specs()) {
    const int64_t n = numel_of(spec.shape), stride = std::max<int64_t>(1, n / 16);
    for (int64_t i = 0; i < n; i += stride, ++sampled) {
      const double analytic = gradient[static_cast<size_t>(spec.offset + i)];
      const double numeric = numeric_derivative(f, spec.offset + i);
      zero += analytic == 0;
      // Below 1e-3 the rounding of the loss itself dominates.
      if (std::abs(analytic - numeric) <= 1e-6 * std::max(std::abs(numeric), 1e-3)) continue;
      ++wrong;
      UNSCOPED_INFO(spec.name << "[" << i << "]: " << analytic << ", by differences " << numeric);
    }
  }
  CHECK(wrong == 0);
  CHECK(sampled >= 200);
  CHECK(zero < sampled / 4);  // embedding rows of tokens that do not occur
}

}  // namespace

TEST_CASE("the whole model's gradient equals finite differences") {
  SECTION("Qwen2: biases, tied embeddings") { check_gradient(tiny_config("qwen2")); }
  SECTION("Qwen3: q and k norms, tied embeddings") { check_gradient(tiny_config("qwen3")); }
  SECTION("Llama: untied head") { check_gradient(tiny_config("llama")); }
  SECTION("multi-head attention, biases, untied") {
    model::ModelConfig config = tiny_config("qwen2");
    config.kv_heads = config.heads;
    config.tied_embeddings = false;
    check_gradient(config);
  }
}

TEST_CASE("a first pass writes the gradient over whatever is in its place") {
  for (const char* kind : {"qwen2", "qwen3", "llama"}) {  // tied, q and k norms, untied
    INFO(kind);
    for (const std::vector<int64_t>& lengths : {std::vector<int64_t>{5, 9}, {1}}) {
      LossFunction f(tiny_config(kind), lengths);  // one token has no target, so the head no rows
      CHECK(f.gradient_over_rubbish() == f.gradient(1));
    }
  }
}

TEST_CASE("gradients accumulate over micro-batches") {
  LossFunction f(tiny_config("qwen3"), {5, 9});
  const std::vector<double> once = f.gradient(1);
  std::vector<double> thrice = f.gradient(3);
  for (double& g : thrice) g /= 3;
  CHECK(relative_difference(thrice, once) < 1e-13);
}

TEST_CASE("alignment between the tensors of the flat buffer has no gradient") {
  LossFunction f(tiny_config("qwen2"), {6});
  std::vector<double> gradient = f.gradient(1);
  for (const model::ParamSpec& spec : f.layout.specs()) {
    const auto first = gradient.begin() + spec.offset;
    CHECK(std::any_of(first, first + numel_of(spec.shape), [](double g) { return g != 0; }));
    std::fill(first, first + numel_of(spec.shape), 0.0);
  }
  CHECK(std::all_of(gradient.begin(), gradient.end(), [](double g) { return g == 0; }));
}

TEST_CASE("inference and training forward agree, and logits explain the log-probs") {
  const model::ModelConfig config = tiny_config("llama");
  cpu::CpuBackend backend;
  const model::ParameterLayout layout(config, 1);
  const model::ParameterBuffer weights(backend, layout, DType::kFloat64, MemoryTag::kWeights);
  const model::ParameterBuffer grad(backend, layout, DType::kFloat64, MemoryTag::kMainGrad);
  set_flat(backend, weights, random_weights(layout));
  const model::Transformer transformer(backend, config, DType::kFloat64);
  const model::ContextParallelAttention attention(backend, nullptr);
  const Documents documents{{3, 1, 4, 1, 5}};
  const data::PackedBatch packed = data::pack(whole_group(1, documents), 0, 1, documents);
  const std::vector<int32_t> head_rows{1, 2};
  const std::vector<double> temperature{9, 0.5, 2, 9, 9};
  const model::DeviceBatch batch = transformer.upload(packed, {{0}, 0}, head_rows, temperature);

  TokenRecord trained;
  transformer.train(weights, batch, attention, {}, linear_loss(backend, {1, 2}, {3, 4}, &trained),
                    grad);
  const model::TokenOutputs out = transformer.forward(weights, batch, attention);
  const auto log_probs = download(backend, out.log_prob_R);
  const auto logits = download(backend, transformer.logits(weights, batch, attention));
  CHECK(trained.log_prob == log_probs);
  CHECK(trained.entropy == download(backend, out.entropy_R));
  REQUIRE(logits.size() == 2 * static_cast<size_t>(config.vocab));
  for (size_t r = 0; r < 2; ++r) {
    const double t = temperature[static_cast<size_t>(head_rows[r])];
    const int32_t label = documents[0][static_cast<size_t>(head_rows[r]) + 1];
    const double* z = logits.data() + r * static_cast<size_t>(config.vocab);
    double sum = 0;
    for (int64_t v = 0; v < config.vocab; ++v) sum += std::exp(z[v] / t);
    CHECK(log_probs[r] == Approx(z[label] / t - std::log(sum)).epsilon(1e-12));
  }
}

TEST_CASE("a document's log-probs do not depend on what is packed beside it") {
  const model::ModelConfig config = tiny_config("qwen3");
  const Documents documents = random_documents(config, {6, 1, 9});
  const auto run = [&](const std::vector<int>& samples) {
    const schedule::Plan plan{1, {{{schedule::PlanGroup{{0}, samples}}}}};
    return run_plan(config, plan, 1, documents).log_probs;
  };
  const TokenValues together = run({2, 1, 0});
  CHECK(std::abs(together[2][0] - run({2})[2][0]) < 1e-12);
  const TokenValues alone = run({0});
  for (size_t i : {0u, 1u, 2u, 4u}) CHECK(std::abs(together[0][i] - alone[0][i]) < 1e-12);
}

TEST_CASE("a batch without rows runs and adds no gradient") {
  const model::ModelConfig config = tiny_config("qwen2");
  const schedule::Plan plan{1, {{{schedule::PlanGroup{{0}, {}}}}}};
  const RunResult result = run_plan(config, plan, 1, {});
  CHECK(!result.gradient.empty());
  CHECK(
      std::all_of(result.gradient.begin(), result.gradient.end(), [](double g) { return g == 0; }));
}

TEST_CASE("upload refuses head rows that are pads or out of order") {
  const model::ModelConfig config = tiny_config("llama");
  cpu::CpuBackend backend;
  const model::Transformer transformer(backend, config, DType::kFloat64);
  const Documents documents{{1, 2, 3}};
  const data::PackedBatch packed = data::pack(whole_group(1, documents), 0, 4, documents);
  REQUIRE(packed.rows() == 4);
  const std::vector<double> temperature(4, 1.0);
  const auto upload = [&](const std::vector<int32_t>& rows) {
    transformer.upload(packed, {{0}, 0}, rows, temperature);
  };
  CHECK_NOTHROW(upload({0, 2}));
  CHECK_THROWS_AS(upload({3}), std::logic_error);
  CHECK_THROWS_AS(upload({1, 0}), std::logic_error);
  CHECK_THROWS_AS(upload({4}), std::logic_error);
}

}  // namespace verlcpp::test
