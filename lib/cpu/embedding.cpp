#include <algorithm>

#include "cpu/kernels.h"

namespace verlcpp::cpu {
namespace {

bool holds(int64_t first, int64_t vocab, int32_t id) { return id >= first && id < first + vocab; }

}  // namespace

template <class T>
void embedding(int64_t rows, int64_t vocab, int64_t width, T* out, const T* table,
               const int32_t* ids, int64_t first) {
  for (int64_t t = 0; t < rows; ++t, out += width) {
    if (holds(first, vocab, ids[t])) {
      std::copy_n(table + (ids[t] - first) * width, width, out);
    } else {
      std::fill_n(out, width, T{0});
    }
  }
}

template <class T>
void embedding_backward(int64_t rows, int64_t vocab, int64_t width, T* d_table, const T* d_out,
                        const int32_t* ids, int64_t first) {
  for (int64_t t = 0; t < rows; ++t) {
    if (!holds(first, vocab, ids[t])) continue;
    T* row = d_table + (ids[t] - first) * width;
    for (int64_t i = 0; i < width; ++i) row[i] += d_out[t * width + i];
  }
}

template void embedding(int64_t, int64_t, int64_t, float*, const float*, const int32_t*, int64_t);
template void embedding(int64_t, int64_t, int64_t, double*, const double*, const int32_t*, int64_t);
template void embedding_backward(int64_t, int64_t, int64_t, float*, const float*, const int32_t*,
                                 int64_t);
template void embedding_backward(int64_t, int64_t, int64_t, double*, const double*, const int32_t*,
                                 int64_t);

}  // namespace verlcpp::cpu
