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

/// Outputs, then gradients, of a case on one backend. Inputs and the direction of the gradient are
/// random numbers that bfloat16 holds, so that every dtype starts from the same.
std::vector<std::vector<double>> results(const OpRun& run, const OpCase& c) {
  const auto random = [&](const OpRun& where, int64_t n, uint64_t stream, const Shape& shape) {
    const Tensor rounded =
        OpRun{run.backend, DType::kBFloat16}.from(random_values(n, stream), shape);
    return where.from(download(run.backend, rounded), shape);
  };
  std::vector<Tensor> inputs, projections;
  for (const OpInput& in : c.inputs) {
    inputs.push_back(random(run, numel_of(in.shape), inputs.size(), in.shape));
  }
  const OpResult result = c.forward(run, inputs);
  std::vector<std::vector<double>> values;
  for (const Tensor& x : result.outputs) {
    values.push_back(download(run.backend, x));
    projections.push_back(random({run.backend, x.dtype()}, x.numel(),
                                 kProjectionStream + projections.size(), x.shape()));
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

TEST_CASE("every op of the table equals the CPU's, in float32 and within bfloat16's rounding") {
  const auto gpu = cuda::make_backend(0);
  cpu::CpuBackend cpu;
  // A bfloat16 has 8 bits; a sum of products of rounded intermediates loses a few of them.
  for (const auto& [dtype, tolerance] :
       {std::pair{DType::kFloat32, 1e-5}, {DType::kBFloat16, 0.02}}) {
    for (const OpCase& c : op_cases()) {
      INFO(name_of(dtype) << " " << c.name);
      const auto got = results({*gpu, dtype}, c);
      const auto want = results({cpu, DType::kFloat32}, c);
      REQUIRE(got.size() == want.size());
      for (size_t i = 0; i < want.size(); ++i) {
        INFO("value " << i);
        CHECK(largest_error(got[i], want[i]) < tolerance);
      }
    }
  }
}
