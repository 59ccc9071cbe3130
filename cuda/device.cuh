#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <cstdint>

#include "base/error.h"
#include "tensor/dtype.h"

// What the kernels share.

namespace verlcpp::cuda {

using bf16 = __nv_bfloat16;

__device__ inline float to_float(float x) { return x; }
__device__ inline float to_float(bf16 x) { return __bfloat162float(x); }
template <class T>
__device__ inline T from_float(float x) {
  if constexpr (sizeof(T) == 2) {
    return __float2bfloat16(x);
  } else {
    return x;
  }
}

/// Calls body.template operator()<T>() with the element type of `dtype`.
template <class Body>
void dispatch(DType dtype, Body body) {
  if (dtype == DType::kFloat32) {
    body.template operator()<float>();
  } else {
    expects(dtype == DType::kBFloat16, "CUDA kernels compute in float32 and bfloat16");
    body.template operator()<bf16>();
  }
}

/// Sum over a block of kThreads = blockDim.x threads (a multiple of 32); every thread gets it.
template <class V>
__device__ V block_sum(V value) {
  __shared__ V shared[32];
  for (int offset = 16; offset > 0; offset /= 2) {
    value += __shfl_xor_sync(0xffffffffu, value, offset);
  }
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  __syncthreads();  // the last call's readers are done
  if (lane == 0) shared[warp] = value;
  __syncthreads();
  const int warps = (static_cast<int>(blockDim.x) + 31) / 32;
  V sum = 0;
  for (int w = 0; w < warps; ++w) sum += shared[w];
  return sum;
}

__device__ inline float block_max(float value) {
  __shared__ float shared[32];
  for (int offset = 16; offset > 0; offset /= 2) {
    value = fmaxf(value, __shfl_xor_sync(0xffffffffu, value, offset));
  }
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  __syncthreads();
  if (lane == 0) shared[warp] = value;
  __syncthreads();
  const int warps = (static_cast<int>(blockDim.x) + 31) / 32;
  float max = shared[0];
  for (int w = 1; w < warps; ++w) max = fmaxf(max, shared[w]);
  return max;
}

__device__ inline float warp_sum(float value) {
  for (int offset = 16; offset > 0; offset /= 2) {
    value += __shfl_xor_sync(0xffffffffu, value, offset);
  }
  return value;
}

inline unsigned grid_for(int64_t n, int64_t per_block, int64_t most = int64_t{1} << 30) {
  const int64_t blocks = (n + per_block - 1) / per_block;
  return static_cast<unsigned>(blocks < most ? blocks : most);
}

}  // namespace verlcpp::cuda
