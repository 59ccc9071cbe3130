#include <algorithm>

#include "cpu/kernels.h"

namespace verlcpp::cpu {

template <class T>
void split_qkv(const QkvShape& s, T* q, T* k, T* v, const T* qkv, const T* bias, const T* table) {
  const int64_t q_width = s.heads * s.head_dim, kv_width = s.kv_heads * s.head_dim;
  for (int64_t t = 0; t < s.rows; ++t) {
    const T* from_bias = bias;
    const auto take = [&](T* part, int64_t width) {
      std::copy_n(qkv, width, part);
      qkv += width;
      if (bias == nullptr) return;
      for (int64_t i = 0; i < width; ++i) part[i] += from_bias[i];
      from_bias += width;
    };
    take(q + t * q_width, q_width);
    take(k + t * kv_width, kv_width);
    take(v + t * kv_width, kv_width);
  }
  if (table == nullptr) return;
  rope(s.rows, s.heads, s.head_dim, q, table, false);
  rope(s.rows, s.kv_heads, s.head_dim, k, table, false);
}

template <class T>
void split_qkv_backward(const QkvShape& s, T* d_qkv, T* d_bias, const T* d_q, const T* d_k,
                        const T* d_v, const T* table) {
  const int64_t q_width = s.heads * s.head_dim, kv_width = s.kv_heads * s.head_dim;
  const int64_t width = q_width + 2 * kv_width;
  for (int64_t t = 0; t < s.rows; ++t, d_qkv += width) {
    std::copy_n(d_q + t * q_width, q_width, d_qkv);
    std::copy_n(d_k + t * kv_width, kv_width, d_qkv + q_width);
    std::copy_n(d_v + t * kv_width, kv_width, d_qkv + q_width + kv_width);
    if (table != nullptr) {  // heads of q and of k lie end to end
      rope(1, s.heads + s.kv_heads, s.head_dim, d_qkv, table + t * s.head_dim, true);
    }
    if (d_bias != nullptr) add(width, d_bias, d_bias, d_qkv);
  }
}

template void split_qkv(const QkvShape&, float*, float*, float*, const float*, const float*,
                        const float*);
template void split_qkv(const QkvShape&, double*, double*, double*, const double*, const double*,
                        const double*);
template void split_qkv_backward(const QkvShape&, float*, float*, const float*, const float*,
                                 const float*, const float*);
template void split_qkv_backward(const QkvShape&, double*, double*, const double*, const double*,
                                 const double*, const double*);

}  // namespace verlcpp::cpu
