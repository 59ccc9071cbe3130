#include <cmath>

#include "cpu/kernels.h"

namespace verlcpp::cpu {

// Loshchilov & Hutter 2019, algorithm 2, in PyTorch's arrangement: decay first, then
// w -= lr / (1 - beta1^t) m / (sqrt(v / (1 - beta2^t)) + eps). Each element in double.
template <class T>
void adamw(int64_t n, T* weight, const T* grad, T* exp_avg, T* exp_avg_sq,
           const AdamWOptions& options) {
  const double b1 = options.beta1, b2 = options.beta2, step = static_cast<double>(options.step);
  const double rate = options.lr / (1.0 - std::pow(b1, step));
  const double inverse_sqrt2 = 1.0 / std::sqrt(1.0 - std::pow(b2, step));
  const double decay = 1.0 - options.lr * options.weight_decay;
  const double eps = options.eps, grad_scale = options.grad_scale;
  for (int64_t i = 0; i < n; ++i) {
    const double g = static_cast<double>(grad[i]) * grad_scale;
    const double m = b1 * static_cast<double>(exp_avg[i]) + (1.0 - b1) * g;
    const double v = b2 * static_cast<double>(exp_avg_sq[i]) + (1.0 - b2) * g * g;
    exp_avg[i] = static_cast<T>(m);
    exp_avg_sq[i] = static_cast<T>(v);
    weight[i] = static_cast<T>(static_cast<double>(weight[i]) * decay -
                               rate * m / (std::sqrt(v) * inverse_sqrt2 + eps));
  }
}

template void adamw(int64_t, float*, const float*, float*, float*, const AdamWOptions&);
template void adamw(int64_t, double*, const double*, double*, double*, const AdamWOptions&);

}  // namespace verlcpp::cpu
