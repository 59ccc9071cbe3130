#include "cpu/kernels.h"
#include "cpu/reduce.h"

namespace verlcpp::cpu {

template <class T>
void add(int64_t n, T* out, const T* a, const T* b) {
  for (int64_t i = 0; i < n; ++i) out[i] = a[i] + b[i];
}

template <class T>
double sum_squares(int64_t n, const T* x) {
  return sum_of(n, [&](int64_t i) { return static_cast<double>(x[i]) * x[i]; });
}

template void add(int64_t, float*, const float*, const float*);
template void add(int64_t, double*, const double*, const double*);
template double sum_squares(int64_t, const float*);
template double sum_squares(int64_t, const double*);

}  // namespace verlcpp::cpu
