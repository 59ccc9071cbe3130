#include <cmath>

#include "cpu/kernels.h"
#include "cpu/reduce.h"

namespace verlcpp::cpu {

template <class T>
void rms_norm(int64_t rows, int64_t width, T* y, T* rstd, const T* x, const T* w, double eps) {
  for (int64_t t = 0; t < rows; ++t, x += width, y += width) {
    const double mean_square = sum_squares(width, x) / static_cast<double>(width);
    const T scale = static_cast<T>(1.0 / std::sqrt(mean_square + eps));
    rstd[t] = scale;
    for (int64_t i = 0; i < width; ++i) y[i] = x[i] * scale * w[i];
  }
}

// With n = x rstd and g = d_y w: d_x = rstd (g - n mean(g n)), d_w = sum over rows of d_y n.
template <class T>
void rms_norm_backward(int64_t rows, int64_t width, T* d_x, T* d_w, const T* d_y, const T* x,
                       const T* w, const T* rstd, const T* d_residual) {
  for (int64_t t = 0; t < rows; ++t, x += width, d_x += width, d_y += width) {
    const T scale = rstd[t];
    const double dot =
        sum_of(width, [&](int64_t i) { return static_cast<double>(d_y[i]) * w[i] * x[i] * scale; });
    const T mean = static_cast<T>(dot / static_cast<double>(width));
    for (int64_t i = 0; i < width; ++i) {
      const T n = x[i] * scale, d = d_y[i];
      d_w[i] += d * n;
      const T own = scale * (d * w[i] - n * mean);
      d_x[i] = d_residual == nullptr ? own : own + d_residual[i];
    }
    if (d_residual != nullptr) d_residual += width;
  }
}

template void rms_norm(int64_t, int64_t, float*, float*, const float*, const float*, double);
template void rms_norm(int64_t, int64_t, double*, double*, const double*, const double*, double);
template void rms_norm_backward(int64_t, int64_t, float*, float*, const float*, const float*,
                                const float*, const float*, const float*);
template void rms_norm_backward(int64_t, int64_t, double*, double*, const double*, const double*,
                                const double*, const double*, const double*);

}  // namespace verlcpp::cpu
