#pragma once

#include <algorithm>
#include <initializer_list>
#include <source_location>
#include <string>
#include <string_view>

#include "base/error.h"
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

}  // namespace verlcpp
