#include <cmath>

#include "cuda/check.h"
#include "cuda/device.cuh"
#include "cuda/kernels.h"

namespace verlcpp::cuda {
namespace {

struct Factors {
  float beta1, rest1, beta2, rest2;  // rest = 1 - beta, which a float beta would not give
  float rate, inverse_sqrt2, decay, eps, grad_scale;
};

template <class T>
__global__ void adamw_kernel(int64_t n, T* weight, float* master, const float* grad, float* exp_avg,
                             float* exp_avg_sq, Factors f) {
  const int64_t stride = int64_t{blockDim.x} * gridDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < n; i += stride) {
    const float g = grad[i] * f.grad_scale;
    const float m = f.beta1 * exp_avg[i] + f.rest1 * g;
    const float v = f.beta2 * exp_avg_sq[i] + f.rest2 * g * g;
    exp_avg[i] = m;
    exp_avg_sq[i] = v;
    const float w = master[i] * f.decay - f.rate * m / (sqrtf(v) * f.inverse_sqrt2 + f.eps);
    master[i] = w;
    if constexpr (sizeof(T) == 2) weight[i] = from_float<T>(w);
  }
}

}  // namespace

// The arithmetic of lib/cpu/adamw.cpp; the factors are formed in double on the host.
void adamw(cudaStream_t stream, DType dtype, int64_t n, void* weight, float* master,
           const float* grad, float* exp_avg, float* exp_avg_sq, const AdamWOptions& options) {
  if (n == 0) return;
  const double step = static_cast<double>(options.step);
  const Factors factors{
      .beta1 = static_cast<float>(options.beta1),
      .rest1 = static_cast<float>(1.0 - options.beta1),
      .beta2 = static_cast<float>(options.beta2),
      .rest2 = static_cast<float>(1.0 - options.beta2),
      .rate = static_cast<float>(options.lr / (1.0 - std::pow(options.beta1, step))),
      .inverse_sqrt2 = static_cast<float>(1.0 / std::sqrt(1.0 - std::pow(options.beta2, step))),
      .decay = static_cast<float>(1.0 - options.lr * options.weight_decay),
      .eps = static_cast<float>(options.eps),
      .grad_scale = static_cast<float>(options.grad_scale)};
  dispatch(dtype, [&]<class T>() {
    adamw_kernel<<<grid_for(n, 256, 8192), 256, 0, stream>>>(n, static_cast<T*>(weight), master,
                                                             grad, exp_avg, exp_avg_sq, factors);
  });
  check_launch("adamw");
}

}  // namespace verlcpp::cuda
