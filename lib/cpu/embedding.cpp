#include <algorithm>
#include <string>

#include "base/error.h"
#include "cpu/kernels.h"

namespace verlcpp::cpu {
namespace {

int64_t checked_id(int32_t id, int64_t vocab) {
  if (id < 0 || id >= vocab) {
    expects(false, "token id " + std::to_string(id) + " outside of the table's " +
                       std::to_string(vocab) + " rows");
  }
  return id;
}

}  // namespace

template <class T>
void embedding(int64_t rows, int64_t vocab, int64_t width, T* out, const T* table,
               const int32_t* ids) {
  for (int64_t t = 0; t < rows; ++t) {
    std::copy_n(table + checked_id(ids[t], vocab) * width, width, out + t * width);
  }
}

template <class T>
void embedding_backward(int64_t rows, int64_t vocab, int64_t width, T* d_table, const T* d_out,
                        const int32_t* ids) {
  for (int64_t t = 0; t < rows; ++t) {
    T* row = d_table + checked_id(ids[t], vocab) * width;
    for (int64_t i = 0; i < width; ++i) row[i] += d_out[t * width + i];
  }
}

template void embedding(int64_t, int64_t, int64_t, float*, const float*, const int32_t*);
template void embedding(int64_t, int64_t, int64_t, double*, const double*, const int32_t*);
template void embedding_backward(int64_t, int64_t, int64_t, float*, const float*, const int32_t*);
template void embedding_backward(int64_t, int64_t, int64_t, double*, const double*, const int32_t*);

}  // namespace verlcpp::cpu
