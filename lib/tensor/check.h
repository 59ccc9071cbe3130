#pragma once

#include <algorithm>
#include <initializer_list>
#include <source_location>
#include <string>
#include <string_view>

#include "base/error.h"
#include "tensor/backend.h"
#include "tensor/tensor.h"

namespace verlcpp {

/// Throws unless `x` has this dtype and shape.
inline void expect_tensor(const Tensor& x, std::string_view name, DType dtype,
                          std::initializer_list<int64_t> shape,
                          std::source_location where = std::source_location::current()) {
  if (x.dtype() == dtype &&
      std::equal(shape.begin(), shape.end(), x.shape().begin(), x.shape().end()))
    return;
  expects(false,
          std::string(name) + " is " + std::string(name_of(x.dtype())) + to_string(x.shape()) +
              ", wanted " + std::string(name_of(dtype)) + to_string(Shape(shape)),
          where);
}

/// Throws unless `x` has this dtype and `like`'s shape.
inline void expect_like(const Tensor& x, std::string_view name, const Tensor& like,
                        std::source_location where = std::source_location::current()) {
  if (x.dtype() == like.dtype() && x.shape() == like.shape()) return;
  expects(false,
          std::string(name) + " is " + std::string(name_of(x.dtype())) + to_string(x.shape()) +
              ", wanted " + std::string(name_of(like.dtype())) + to_string(like.shape()),
          where);
}

inline void expect_rank(const Tensor& x, std::string_view name, size_t rank,
                        std::source_location where = std::source_location::current()) {
  if (x.shape().size() == rank) return;
  expects(false,
          std::string(name) + " has shape " + to_string(x.shape()) + ", wanted " +
              std::to_string(rank) + " axes",
          where);
}

/// Throws unless the tensors of Backend::decode_attention fit together.
inline void check_decode_attention(const KvPages& pages, const Tensor& q, const Tensor& k,
                                   const Tensor& v, const Tensor& cache_k, const Tensor& cache_v,
                                   const Tensor& o) {
  expect_rank(q, "q", 3);
  expect_rank(k, "k", 3);
  expect_rank(cache_k, "cache_k", 3);
  expect_rank(pages.tables_BM, "tables", 2);
  const int64_t sequences = q.dim(0), kv_heads = k.dim(1), head_dim = q.dim(2);
  expects(kv_heads > 0 && q.dim(1) % kv_heads == 0,
          "attention: query heads are no multiple of the kv heads");
  expects(pages.block > 0 && cache_k.dim(0) % pages.block == 0, "the KV cache has whole blocks");
  expect_tensor(k, "k", q.dtype(), {sequences, kv_heads, head_dim});
  expect_like(v, "v", k);
  expect_tensor(cache_k, "cache_k", q.dtype(), {cache_k.dim(0), kv_heads, head_dim});
  expect_like(cache_v, "cache_v", cache_k);
  expect_like(o, "o", q);
  expect_tensor(pages.tables_BM, "tables", DType::kInt32, {sequences, pages.tables_BM.dim(1)});
  expect_tensor(pages.positions_B, "positions", DType::kInt32, {sequences});
}

}  // namespace verlcpp
