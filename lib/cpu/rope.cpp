#include <cmath>

#include "cpu/kernels.h"

namespace verlcpp::cpu {

template <class T>
void rope_table(int64_t rows, int64_t head_dim, T* table, const int32_t* positions,
                const T* inv_freq) {
  const int64_t half = head_dim / 2;
  for (int64_t t = 0; t < rows; ++t, table += head_dim) {
    for (int64_t i = 0; i < half; ++i) {
      const double angle = static_cast<double>(positions[t]) * static_cast<double>(inv_freq[i]);
      table[i] = static_cast<T>(std::cos(angle));
      table[i + half] = static_cast<T>(std::sin(angle));
    }
  }
}

template <class T>
void rope(int64_t rows, int64_t heads, int64_t head_dim, T* x, const T* table, bool inverse) {
  const int64_t half = head_dim / 2;
  for (int64_t t = 0; t < rows; ++t, table += head_dim) {
    for (int64_t n = 0; n < heads; ++n, x += head_dim) {
      for (int64_t i = 0; i < half; ++i) {
        const T a = x[i], b = x[i + half], c = table[i];
        const T s = inverse ? -table[i + half] : table[i + half];
        x[i] = a * c - b * s;
        x[i + half] = b * c + a * s;
      }
    }
  }
}

template void rope_table(int64_t, int64_t, float*, const int32_t*, const float*);
template void rope_table(int64_t, int64_t, double*, const int32_t*, const double*);
template void rope(int64_t, int64_t, int64_t, float*, const float*, bool);
template void rope(int64_t, int64_t, int64_t, double*, const double*, bool);

}  // namespace verlcpp::cpu
