#pragma once

#include <cstdint>

#include "tensor/check.h"

namespace verlcpp {

/// The heads side by side in a row of qkv: N of queries, K of keys, K of values.
struct QkvShape {
  int64_t rows, heads, kv_heads, head_dim;
  int64_t width() const { return (heads + 2 * kv_heads) * head_dim; }
};

/// Of tensors that belong together, else throws. `bias` and `table` may be undefined.
inline QkvShape qkv_shape(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& qkv,
                          const Tensor& bias, DType bias_dtype, const Tensor& table,
                          DType table_dtype) {
  expect_rank(q, "q", 3);
  expect_rank(k, "k", 3);
  const QkvShape s{.rows = q.dim(0), .heads = q.dim(1), .kv_heads = k.dim(1), .head_dim = q.dim(2)};
  expects(s.head_dim % 2 == 0, "qkv: the head dim is odd");
  expect_tensor(k, "k", q.dtype(), {s.rows, s.kv_heads, s.head_dim});
  expect_like(v, "v", k);
  expect_tensor(qkv, "qkv", q.dtype(), {s.rows, s.width()});
  if (bias.defined()) expect_tensor(bias, "bias", bias_dtype, {s.width()});
  if (table.defined()) expect_tensor(table, "table", table_dtype, {s.rows, s.head_dim});
  return s;
}

}  // namespace verlcpp
