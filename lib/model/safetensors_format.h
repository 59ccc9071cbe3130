#pragma once

#include <array>
#include <string_view>
#include <utility>

#include "tensor/dtype.h"

namespace verlcpp::model {

/// The safetensors names of the dtypes we store.
inline constexpr std::array<std::pair<DType, std::string_view>, 6> kSafetensorsDTypes = {{
    {DType::kFloat64, "F64"},
    {DType::kFloat32, "F32"},
    {DType::kBFloat16, "BF16"},
    {DType::kFloat16, "F16"},
    {DType::kInt32, "I32"},
    {DType::kInt64, "I64"},
}};

}  // namespace verlcpp::model
