#include <algorithm>
#include <cmath>

#include "cpu/cpu_backend.h"
#include "cpu/op_cases.h"
#include "support/catch.h"

using namespace verlcpp;
using namespace verlcpp::test;

namespace {

constexpr uint64_t kProjectionStream = 1000;

/// The table, and what the CPU computes as the twin of a narrow dtype.
std::vector<OpCase> all_cases() {
  std::vector<OpCase> cases = op_cases();
  for (OpCase& c : head_cases(true)) cases.push_back(std::move(c));
  return cases;
}

std::vector<Tensor> random_inputs(const OpRun& run, const OpCase& c) {
  std::vector<Tensor> inputs;
  for (const OpInput& in : c.inputs) {
    inputs.push_back(run.from(random_values(numel_of(in.shape), inputs.size()), in.shape));
  }
  return inputs;
}

std::vector<Tensor> projections(const OpRun& run, const OpResult& result) {
  std::vector<Tensor> out;
  for (const Tensor& x : result.outputs) {
    out.push_back(run.from(random_values(x.numel(), kProjectionStream + out.size()), x.shape()));
  }
  return out;
}

/// The scalar that is differentiated: the outputs on a fixed random direction.
double projected(const OpRun& run, const OpResult& result) {
  double loss = 0;
  for (size_t i = 0; i < result.outputs.size(); ++i) {
    const std::vector<double> values = download(run.backend, result.outputs[i]);
    const std::vector<double> along =
        random_values(result.outputs[i].numel(), kProjectionStream + i);
    for (size_t j = 0; j < values.size(); ++j) loss += values[j] * along[j];
  }
  return loss;
}

/// Gradients as host values, without the start value of accumulating ones.
std::vector<std::vector<double>> gradients(const OpRun& run, const OpCase& c,
                                           const std::vector<Tensor>& inputs,
                                           const OpResult& result) {
  const std::vector<Tensor> grads = c.backward(run, inputs, result, projections(run, result));
  REQUIRE(grads.size() == c.inputs.size());
  std::vector<std::vector<double>> out;
  for (size_t i = 0; i < grads.size(); ++i) {
    REQUIRE(grads[i].shape() == c.inputs[i].shape);
    out.push_back(download(run.backend, grads[i]));
    for (double& g : out.back()) g -= c.inputs[i].accumulates ? OpRun::kGradStart : 0.0;
  }
  return out;
}

double norm(const std::vector<double>& x) {
  double sum = 0;
  for (double v : x) sum += v * v;
  return std::sqrt(sum);
}

/// Central difference of the projected outputs along element `at` of input `which`.
double central_difference(const OpRun& run, const OpCase& c, std::vector<Tensor> inputs,
                          size_t which, size_t at) {
  constexpr double kEps = 1e-6;
  std::vector<double> values = download(run.backend, inputs[which]);
  const double middle = values[at];
  double loss[2];
  for (int side : {0, 1}) {
    values[at] = middle + (side ? kEps : -kEps);
    inputs[which] = run.from(values, c.inputs[which].shape);
    loss[side] = projected(run, c.forward(run, inputs));
  }
  return (loss[1] - loss[0]) / (2 * kEps);
}

double relative_error(const std::vector<double>& a, const std::vector<double>& b) {
  std::vector<double> difference(a.size());
  for (size_t i = 0; i < a.size(); ++i) difference[i] = a[i] - b[i];
  return norm(difference) / std::max(norm(b), 1.0);
}

}  // namespace

TEST_CASE("every op's gradient is the central difference of its forward, in float64") {
  cpu::CpuBackend backend;
  const OpRun run{backend, DType::kFloat64};
  for (const OpCase& c : all_cases()) {
    INFO(c.name);
    const std::vector<Tensor> inputs = random_inputs(run, c);
    const OpResult result = c.forward(run, inputs);
    for (const Tensor& x : result.outputs) CHECK(std::isfinite(norm(download(backend, x))));
    const auto analytic = gradients(run, c, inputs, result);
    for (size_t i = 0; i < inputs.size(); ++i) {
      INFO("input " << i);
      // Large inputs are probed at a stride that is prime to their row widths.
      const size_t n = analytic[i].size(), stride = n <= 150 ? 1 : n / 100 * 2 + 1;
      std::vector<double> probed, numeric;
      for (size_t at = 0; at < n; at += stride) {
        probed.push_back(analytic[i][at]);
        numeric.push_back(central_difference(run, c, inputs, i, at));
      }
      CHECK(relative_error(probed, numeric) < 1e-7);
    }
  }
}

TEST_CASE("every op in float32 is within 1e-5 of itself in float64") {
  cpu::CpuBackend backend;
  const OpRun wide{backend, DType::kFloat64}, single{backend, DType::kFloat32};
  for (const OpCase& c : all_cases()) {
    INFO(c.name);
    const std::vector<Tensor> single_inputs = random_inputs(single, c);
    std::vector<Tensor> wide_inputs;  // the rounded values, so that only the arithmetic differs
    for (const Tensor& x : single_inputs) {
      wide_inputs.push_back(wide.from(download(backend, x), x.shape()));
    }
    const OpResult a = c.forward(single, single_inputs), b = c.forward(wide, wide_inputs);
    for (size_t i = 0; i < a.outputs.size(); ++i) {
      CHECK(relative_error(download(backend, a.outputs[i]), download(backend, b.outputs[i])) <
            1e-5);
    }
    const auto grad_a = gradients(single, c, single_inputs, a);
    const auto grad_b = gradients(wide, c, wide_inputs, b);
    for (size_t i = 0; i < grad_a.size(); ++i) CHECK(relative_error(grad_a[i], grad_b[i]) < 1e-5);
  }
}
