#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace verlcpp {

enum class DType { kFloat64, kFloat32, kBFloat16, kFloat16, kInt32, kInt64 };

int64_t size_of(DType dtype);
/// verl's and PyTorch's names: float64, float32, bfloat16, float16, int32, int64.
std::string_view name_of(DType dtype);
/// The dtype of that name, or nothing.
std::optional<DType> dtype_named(std::string_view name);

template <class T>
struct DTypeOf;
template <>
struct DTypeOf<double> {
  static constexpr DType value = DType::kFloat64;
};
template <>
struct DTypeOf<float> {
  static constexpr DType value = DType::kFloat32;
};
template <>
struct DTypeOf<int32_t> {
  static constexpr DType value = DType::kInt32;
};
template <>
struct DTypeOf<int64_t> {
  static constexpr DType value = DType::kInt64;
};

}  // namespace verlcpp
