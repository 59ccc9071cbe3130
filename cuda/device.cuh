#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <initializer_list>

#include "base/error.h"
#include "tensor/dtype.h"

// What the kernels share.

namespace verlcpp::cuda {

using bf16 = __nv_bfloat16;

__device__ inline float to_float(float x) { return x; }
__device__ inline float to_float(bf16 x) { return __bfloat162float(x); }
/// 2^x in one instruction: 0 where that is below 2^-126.
__device__ inline float exp2_fast(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
/// Errs by 1e-6 at most where it is not negligible: a thousandth of what bfloat16 rounds off.
__device__ inline float fast_sigmoid(float x) { return __fdividef(1.0f, 1.0f + __expf(-x)); }
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

/// W neighbouring elements, at most 16 bytes. Where W > 1 memory gives and takes them in one
/// access: a quarter or an eighth of the instructions for the same bytes, which are then what
/// bounds a kernel.
template <class T, int W>
struct alignas(W * sizeof(T)) Pack {
  T at[W];
  __device__ float operator[](int e) const { return to_float(at[e]); }
  __device__ static Pack of(const float (&values)[W]) {
    Pack pack;
#pragma unroll
    for (int e = 0; e < W; ++e) pack.at[e] = from_float<T>(values[e]);
    return pack;
  }
};
/// Two in a register, the first in its lower half, which as an upper half is that float.
template <int W>
requires(W > 1) struct alignas(W * sizeof(bf16)) Pack<bf16, W> {
  uint32_t pairs[W / 2];
  __device__ float operator[](int e) const {
    return __uint_as_float(e % 2 == 0 ? pairs[e / 2] << 16 : pairs[e / 2] & 0xffff0000u);
  }
  __device__ static Pack of(const float (&values)[W]) {
    Pack pack;
#pragma unroll
    for (int e = 0; e < W; e += 2) {
      const __nv_bfloat162 pair = __floats2bfloat162_rn(values[e], values[e + 1]);
      pack.pairs[e / 2] = *reinterpret_cast<const uint32_t*>(&pair);
    }
    return pack;
  }
};
template <int W, class T>
__device__ inline Pack<T, W> load(const T* from) {
  return *reinterpret_cast<const Pack<T, W>*>(from);
}
template <class T, int W>
__device__ inline void store(T* to, const Pack<T, W>& pack) {
  *reinterpret_cast<Pack<T, W>*>(to) = pack;
}
/// Rounded to T.
template <int W, class T>
__device__ inline void store(T* to, const float (&values)[W]) {
  store(to, Pack<T, W>::of(values));
}

/// Numbers that are unpacked before and after this are unpacked twice: packed they take half of the
/// registers meanwhile.
template <int W, int K>
__device__ inline void keep_packed(Pack<bf16, W> (&packs)[K]) {
  if constexpr (W > 1) {
#pragma unroll
    for (int i = 0; i < K * W / 2; ++i) {
      asm volatile("" : "+r"(packs[i / (W / 2)].pairs[i % (W / 2)]));
    }
  }
}
template <int W, int K>
__device__ inline void keep_packed(Pack<float, W> (&)[K]) {}

/// Whether a row of so many bytes, at these places (null: none), consists of whole aligned 16
/// bytes.
inline bool in_sixteens(int64_t row_bytes, std::initializer_list<const void*> places) {
  return row_bytes % 16 == 0 && std::all_of(places.begin(), places.end(), [](const void* place) {
           return reinterpret_cast<uintptr_t>(place) % 16 == 0;
         });
}

/// Calls body.template operator()<T, W>(): the element type of `dtype`, and as many of them as a
/// thread visits at a time, those of 16 bytes where `wide`, else one.
template <class Body>
void dispatch_wide(DType dtype, bool wide, Body body) {
  dispatch(dtype, [&]<class T>() {
    if (wide) {
      body.template operator()<T, static_cast<int>(16 / sizeof(T))>();
    } else {
      body.template operator()<T, 1>();
    }
  });
}

/// For code that moves rows: calls body.template operator()<Word>() with the widest word that rows
/// of so many bytes (a multiple of 2) at these places consist of.
template <class Body>
void with_words(int64_t row_bytes, std::initializer_list<const void*> places, Body body) {
  if (in_sixteens(row_bytes, places)) {
    body.template operator()<uint4>();
  } else {
    body.template operator()<uint16_t>();
  }
}
/// Threads for several rows of so many words, or for one.
inline dim3 row_block(int64_t words) {
  const auto x = std::bit_ceil(static_cast<unsigned>(std::clamp<int64_t>(words, 1, 128)));
  return {x, 128 / x};
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

template <class V>
__device__ inline V warp_sum(V value) {
  for (int offset = 16; offset > 0; offset /= 2) {
    value += __shfl_xor_sync(0xffffffffu, value, offset);
  }
  return value;
}

inline unsigned grid_for(int64_t n, int64_t per_block, int64_t most = int64_t{1} << 30) {
  const int64_t blocks = (n + per_block - 1) / per_block;
  return static_cast<unsigned>(blocks < most ? blocks : most);
}

/// out[i] += sum of the rows of parts [rows, width], always in the same order (elementwise.cu).
void add_rows(cudaStream_t stream, int64_t rows, int64_t width, float* out, const float* parts);

}  // namespace verlcpp::cuda
