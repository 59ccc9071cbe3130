#include <cmath>

#include "cuda/check.h"
#include "cuda/device.cuh"
#include "cuda/kernels.h"

namespace verlcpp::cuda {
namespace {

constexpr int kThreads = 128;
constexpr int kPacks = 2;  // of a thread

struct Factors {
  float beta1, rest1, beta2, rest2;  // rest = 1 - beta, which a float beta would not give
  float rate, inverse_sqrt2, decay, eps, grad_scale;
};

/// The new weight; m and v become the new moments. Every rounding is spelled out, so that an
/// element gets the same bits wherever it lies and whichever kernel takes it.
__device__ float step_of(float weight, float grad, float& m, float& v, const Factors& f) {
  const float g = __fmul_rn(grad, f.grad_scale);
  m = __fmaf_rn(f.beta1, m, __fmul_rn(f.rest1, g));
  v = __fmaf_rn(f.beta2, v, __fmul_rn(g, __fmul_rn(f.rest2, g)));
  const float root = __fmaf_rn(__fsqrt_rn(v), f.inverse_sqrt2, f.eps);
  return __fmaf_rn(weight, f.decay, -__fdiv_rn(__fmul_rn(f.rate, m), root));
}

/// A thread takes kPacks packs of W elements, a block's width apart so that neighbours access
/// neighbouring memory, and has all that it reads in flight before it needs any of it.
template <class T, int W>
__global__ void __launch_bounds__(kThreads, 8)
    adamw_kernel(int64_t packs, T* weight, float* master, const float* grad, float* exp_avg,
                 float* exp_avg_sq, Factors f) {
  const int64_t first = int64_t{blockIdx.x} * (kThreads * kPacks) + threadIdx.x;
  Pack<float, W> w[kPacks], g[kPacks], m[kPacks], v[kPacks];
#pragma unroll
  for (int p = 0; p < kPacks; ++p) {
    if (first + p * kThreads >= packs) break;
    const int64_t at = (first + p * kThreads) * W;
    g[p] = load<W>(grad + at);
    m[p] = load<W>(exp_avg + at);
    v[p] = load<W>(exp_avg_sq + at);
    w[p] = load<W>(master + at);
  }
#pragma unroll
  for (int p = 0; p < kPacks; ++p) {
    if (first + p * kThreads >= packs) break;
    const int64_t at = (first + p * kThreads) * W;
#pragma unroll
    for (int e = 0; e < W; ++e) {
      w[p].at[e] = step_of(w[p].at[e], g[p].at[e], m[p].at[e], v[p].at[e], f);
    }
    store(exp_avg + at, m[p].at);
    store(exp_avg_sq + at, v[p].at);
    store(master + at, w[p].at);
    if constexpr (sizeof(T) == 2) store(weight + at, w[p].at);
  }
}

/// The factors are formed in double.
Factors factors_of(const AdamWOptions& options) {
  const double step = static_cast<double>(options.step);
  return {.beta1 = static_cast<float>(options.beta1),
          .rest1 = static_cast<float>(1.0 - options.beta1),
          .beta2 = static_cast<float>(options.beta2),
          .rest2 = static_cast<float>(1.0 - options.beta2),
          .rate = static_cast<float>(options.lr / (1.0 - std::pow(options.beta1, step))),
          .inverse_sqrt2 = static_cast<float>(1.0 / std::sqrt(1.0 - std::pow(options.beta2, step))),
          .decay = static_cast<float>(1.0 - options.lr * options.weight_decay),
          .eps = static_cast<float>(options.eps),
          .grad_scale = static_cast<float>(options.grad_scale)};
}

}  // namespace

// The arithmetic of lib/cpu/adamw.cpp. Four elements at a time where all places allow it, and what
// remains behind them one by one.
void adamw(cudaStream_t stream, DType dtype, int64_t n, void* weight, float* master,
           const float* grad, float* exp_avg, float* exp_avg_sq, const AdamWOptions& options) {
  const Factors factors = factors_of(options);
  dispatch(dtype, [&]<class T>() {
    T* const weights = static_cast<T*>(weight);
    const auto launch = [&]<int W>(int64_t from, int64_t packs) {
      if (packs == 0) return;
      adamw_kernel<T, W><<<grid_for(packs, kThreads * kPacks), kThreads, 0, stream>>>(
          packs, weights + from, master + from, grad + from, exp_avg + from, exp_avg_sq + from,
          factors);
    };
    const bool wide = in_sixteens(0, {master, grad, exp_avg, exp_avg_sq}) &&
                      reinterpret_cast<uintptr_t>(weight) % (4 * sizeof(T)) == 0;
    const int64_t fours = wide ? n / 4 : 0;
    launch.template operator()<4>(0, fours);
    launch.template operator()<1>(4 * fours, n - 4 * fours);
  });
  check_launch("adamw");
}

}  // namespace verlcpp::cuda
