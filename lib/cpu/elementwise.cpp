#include "cpu/kernels.h"
#include "cpu/reduce.h"

namespace verlcpp::cpu {

template <class T>
void add(int64_t n, T* out, const T* a, const T* b) {
  for (int64_t i = 0; i < n; ++i) out[i] = a[i] + b[i];
}

template <class T>
void add_bias(int64_t rows, int64_t width, T* x, const T* bias) {
  for (int64_t t = 0; t < rows; ++t) add(width, x + t * width, x + t * width, bias);
}

template <class T>
void add_bias_backward(int64_t rows, int64_t width, T* d_bias, const T* d_y) {
  for (int64_t t = 0; t < rows; ++t) add(width, d_bias, d_bias, d_y + t * width);
}

template <class T>
double sum_squares(int64_t n, const T* x) {
  return sum_of(n, [&](int64_t i) { return static_cast<double>(x[i]) * x[i]; });
}

template void add(int64_t, float*, const float*, const float*);
template void add(int64_t, double*, const double*, const double*);
template void add_bias(int64_t, int64_t, float*, const float*);
template void add_bias(int64_t, int64_t, double*, const double*);
template void add_bias_backward(int64_t, int64_t, float*, const float*);
template void add_bias_backward(int64_t, int64_t, double*, const double*);
template double sum_squares(int64_t, const float*);
template double sum_squares(int64_t, const double*);

}  // namespace verlcpp::cpu
