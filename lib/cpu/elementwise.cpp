#include <algorithm>

#include "cpu/kernels.h"
#include "cpu/reduce.h"

namespace verlcpp::cpu {

template <class T>
void add(int64_t n, T* out, const T* a, const T* b) {
  for (int64_t i = 0; i < n; ++i) out[i] = a[i] + b[i];
}

template <class T>
double sum_squares(int64_t n, const T* x) {
  // In blocks: a running sum of tens of millions of squares loses four digits.
  constexpr int64_t kBlock = 4096;
  double total = 0;
  for (int64_t begin = 0; begin < n; begin += kBlock) {
    const T* block = x + begin;
    total += sum_of(std::min(kBlock, n - begin),
                    [&](int64_t i) { return static_cast<double>(block[i]) * block[i]; });
  }
  return total;
}

template void add(int64_t, float*, const float*, const float*);
template void add(int64_t, double*, const double*, const double*);
template double sum_squares(int64_t, const float*);
template double sum_squares(int64_t, const double*);

}  // namespace verlcpp::cpu
