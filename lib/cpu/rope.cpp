#include <cmath>
#include <vector>

#include "cpu/kernels.h"

namespace verlcpp::cpu {

template <class T>
void rope(int64_t rows, int64_t heads, int64_t head_dim, T* x, const int32_t* positions,
          const T* inv_freq, bool inverse) {
  const int64_t half = head_dim / 2;
  std::vector<T> cosine(static_cast<size_t>(half)), sine(cosine);
  for (int64_t t = 0; t < rows; ++t) {
    for (int64_t i = 0; i < half; ++i) {
      const size_t at = static_cast<size_t>(i);
      const double angle = static_cast<double>(positions[t]) * static_cast<double>(inv_freq[i]);
      cosine[at] = static_cast<T>(std::cos(angle));
      sine[at] = static_cast<T>(inverse ? -std::sin(angle) : std::sin(angle));
    }
    const T *c = cosine.data(), *s = sine.data();
    for (int64_t n = 0; n < heads; ++n, x += head_dim) {
      for (int64_t i = 0; i < half; ++i) {
        const T a = x[i], b = x[i + half];
        x[i] = a * c[i] - b * s[i];
        x[i + half] = b * c[i] + a * s[i];
      }
    }
  }
}

template void rope(int64_t, int64_t, int64_t, float*, const int32_t*, const float*, bool);
template void rope(int64_t, int64_t, int64_t, double*, const int32_t*, const double*, bool);

}  // namespace verlcpp::cpu
