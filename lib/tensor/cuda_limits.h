#pragma once

#include <cstdint>

#include "tensor/dtype.h"

// What the CUDA kernels can do, for checks before a GPU is touched.

namespace verlcpp {

inline constexpr int64_t kWidestCudaRow = 8192;       // that RMSNorm takes: the hidden size
inline constexpr int64_t kLargestCudaHeadDim = 256;   // of attention
inline constexpr int64_t kLargestCudnnHeadDim = 128;  // of cuDNN's, in multiples of 8
inline constexpr int64_t kMostCudaSequences = 65535;  // decoded at once: rows of a grid

/// Whether packed attention is cuDNN's; else it is the plain kernel, a warp to a row and head.
constexpr bool cudnn_attends(DType dtype, int64_t head_dim) {
  return dtype == DType::kBFloat16 && head_dim % 8 == 0 && head_dim <= kLargestCudnnHeadDim;
}

}  // namespace verlcpp
