#pragma once

#include <string>

#include "base/error.h"
#include "tensor/tensor.h"

namespace verlcpp::cpu {

/// Calls body.operator()<T>() with T the compute type (float or double) that `dtype` names.
template <class Body>
void dispatch(DType dtype, Body&& body) {
  if (dtype == DType::kFloat32) return body.template operator()<float>();
  if (dtype == DType::kFloat64) return body.template operator()<double>();
  expects(false, "the CPU computes in float32 and float64, not in " + std::string(name_of(dtype)));
}

/// Null where an op does without `x`.
template <class T>
T* pointer_or_null(const Tensor& x) {
  return x.defined() ? x.as<T>() : nullptr;
}

}  // namespace verlcpp::cpu
