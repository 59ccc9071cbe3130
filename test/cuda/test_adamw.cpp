// AdamW on the GPU, to the bit.

#include <cmath>
#include <utility>

#include "cpu/cpu_backend.h"
#include "cpu/op_cases.h"
#include "cuda/runtime.h"
#include "support/catch.h"

using namespace verlcpp;
using namespace verlcpp::test;

namespace {

/// An AdamW step's element: weight and moments in float, in the order in which cuda/adamw.cu
/// rounds.
struct AdamWElement {
  float w, m = 0, v = 0;

  void step(float grad, const AdamWOptions& options) {
    const double t = static_cast<double>(options.step);
    const auto rate = static_cast<float>(options.lr / (1 - std::pow(options.beta1, t)));
    const auto scale = static_cast<float>(1 / std::sqrt(1 - std::pow(options.beta2, t)));
    const auto decay = static_cast<float>(1 - options.lr * options.weight_decay);
    const float g = grad * static_cast<float>(options.grad_scale);
    const float part = static_cast<float>(1 - options.beta1) * g;
    const float square = g * (static_cast<float>(1 - options.beta2) * g);
    m = std::fma(static_cast<float>(options.beta1), m, part);
    v = std::fma(static_cast<float>(options.beta2), v, square);
    const float root = std::fma(std::sqrt(v), scale, static_cast<float>(options.eps));
    w = std::fma(w, decay, -(rate * m / root));
  }
};

constexpr int64_t kAround = 8;  // elements before and behind those that a step is given

/// n gradients of all sizes, zeros and ones whose square is subnormal or none among them.
std::vector<double> adamw_gradients(int64_t n, uint64_t stream) {
  std::vector<double> grad = random_values(n, stream);
  for (size_t i = 0; i < grad.size(); ++i) {
    if (i % 7 == 3) grad[i] = 0;
    if (i % 11 == 5) grad[i] *= 1e-20;
    if (i % 13 == 1) grad[i] *= 1e-30;
  }
  return grad;
}

AdamWOptions adamw_options(int64_t step) {
  return {.lr = 0.1, .weight_decay = step == 1 ? 0.5 : 0, .step = step, .grad_scale = 0.3};
}

/// Three steps on n elements of larger tensors, `first` behind the tensors' beginning;
/// `weight_first` where the weights are not their own master. Weights, master, moments, with what
/// lies around them.
std::vector<std::vector<double>> adamw_on(Backend& backend, DType dtype, int64_t n, int64_t first,
                                          int64_t weight_first) {
  const OpRun run{backend, DType::kFloat32}, stored{backend, dtype};
  const int64_t room = n + 2 * kAround;
  const Tensor master = run.from(random_values(room, 4), {room});
  const Tensor weight = dtype == DType::kFloat32 ? master : stored.filled(3, {room});
  const Tensor m = run.filled(0, {room}), v = run.filled(0, {room});
  for (int64_t step = 1; step <= 3; ++step) {
    const auto grad = run.from(adamw_gradients(room, static_cast<uint64_t>(20 + step)), {room});
    backend.adamw(weight.slice(weight_first, {n}), master.slice(first, {n}), grad.slice(first, {n}),
                  m.slice(first, {n}), v.slice(first, {n}), adamw_options(step));
  }
  return {download(backend, weight), download(backend, master), download(backend, m),
          download(backend, v)};
}

/// What adamw_on must give, to the bit.
std::vector<std::vector<double>> adamw_by_hand(DType dtype, int64_t n, int64_t first,
                                               int64_t weight_first) {
  const int64_t room = n + 2 * kAround;
  std::vector<double> master, m, v;
  for (const double w : random_values(room, 4)) {
    master.push_back(static_cast<float>(w));
    m.push_back(0);
    v.push_back(0);
  }
  std::vector<std::vector<double>> grads;
  for (uint64_t step = 1; step <= 3; ++step) grads.push_back(adamw_gradients(room, 20 + step));
  std::vector<double> weight = dtype == DType::kFloat32 ? master : std::vector<double>(m.size(), 3);
  for (int64_t i = 0; i < n; ++i) {
    const auto at = static_cast<size_t>(first + i);
    AdamWElement element{static_cast<float>(master[at])};
    for (size_t step = 1; step <= 3; ++step) {
      element.step(static_cast<float>(grads[step - 1][at]),
                   adamw_options(static_cast<int64_t>(step)));
    }
    master[at] = element.w;
    m[at] = element.m;
    v[at] = element.v;
    weight[static_cast<size_t>(weight_first + i)] = element.w;
  }
  cpu::CpuBackend cpu;
  const OpRun stored{cpu, dtype};
  return {download(cpu, stored.from(weight, {room})), master, m, v};
}

}  // namespace

TEST_CASE("AdamW gives an element the same bits wherever it lies, and touches no other",
          "[small][own]") {
  const auto gpu = cuda::make_backend(0);
  const std::pair<int64_t, int64_t> places[] = {{0, 0}, {1, 1}, {4, 4}, {2, 4}, {0, 1}, {4, 2}};
  for (const int64_t n : {0, 1, 3, 4, 5, 1000, 2047, 2048, 4099, 10007}) {
    for (const auto& [first, weight_first] : places) {
      for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
        const int64_t weights = dtype == DType::kFloat32 ? first : weight_first;
        INFO(n << " of " << name_of(dtype) << " from " << first << ", weights from " << weights);
        const auto got = adamw_on(*gpu, dtype, n, first, weights);
        const auto want = adamw_by_hand(dtype, n, first, weights);
        for (size_t i = 0; i < want.size(); ++i) {
          INFO("value " << i);
          CHECK(got[i] == want[i]);
        }
      }
    }
  }
}
