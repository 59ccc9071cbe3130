// CudaBackend against CpuBackend over the op table: same inputs, outputs poisoned first.

#include <algorithm>
#include <cmath>

#include "cpu/cpu_backend.h"
#include "cpu/op_cases.h"
#include "cuda/runtime.h"
#include "support/catch.h"

using namespace verlcpp;
using namespace verlcpp::test;

namespace {

constexpr uint64_t kProjectionStream = 1000;

/// Outputs, then gradients, of a case on one backend.
std::vector<std::vector<double>> results(const OpRun& run, const OpCase& c) {
  std::vector<Tensor> inputs, projections;
  for (const OpInput& in : c.inputs) {
    inputs.push_back(run.from(random_values(numel_of(in.shape), inputs.size()), in.shape));
  }
  const OpResult result = c.forward(run, inputs);
  std::vector<std::vector<double>> values;
  for (const Tensor& x : result.outputs) {
    values.push_back(download(run.backend, x));
    projections.push_back(
        run.from(random_values(x.numel(), kProjectionStream + projections.size()), x.shape()));
  }
  for (const Tensor& g : c.backward(run, inputs, result, projections)) {
    values.push_back(download(run.backend, g));
  }
  return values;
}

double largest_error(const std::vector<double>& got, const std::vector<double>& want) {
  REQUIRE(got.size() == want.size());
  double scale = 1e-30, error = 0;
  for (double w : want) {
    if (std::isfinite(w)) scale = std::max(scale, std::abs(w));
  }
  for (size_t i = 0; i < want.size(); ++i) {
    if (got[i] == want[i]) continue;  // infinities too
    const double d = std::abs(got[i] - want[i]);
    error = std::isnan(d) ? HUGE_VAL : std::max(error, d);
  }
  return error / scale;
}

}  // namespace

TEST_CASE("every op of the table equals the CPU's in float32") {
  const auto gpu = cuda::make_backend(0);
  cpu::CpuBackend cpu;
  for (const OpCase& c : op_cases()) {
    INFO(c.name);
    const auto got = results({*gpu, DType::kFloat32}, c);
    const auto want = results({cpu, DType::kFloat32}, c);
    REQUIRE(got.size() == want.size());
    for (size_t i = 0; i < want.size(); ++i) {
      INFO("value " << i);
      CHECK(largest_error(got[i], want[i]) < 1e-5);
    }
  }
}
