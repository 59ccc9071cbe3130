#include "cuda/check.h"
#include "cuda/device.cuh"
#include "cuda/kernels.h"

// The sums of ranks that share a process. In rank order, so every run gives the same bits.

namespace verlcpp::cuda {
namespace {

constexpr int kThreads = 256;

/// What a sum of T is carried in.
template <class T>
struct Wide {
  using Type = double;
};
template <>
struct Wide<int32_t> {
  using Type = int64_t;
};
template <>
struct Wide<int64_t> {
  using Type = int64_t;
};

template <class T>
__device__ typename Wide<T>::Type widen(T x) {
  return static_cast<typename Wide<T>::Type>(x);
}
template <>
__device__ double widen(bf16 x) {
  return __bfloat162float(x);
}
template <class T>
__device__ T narrow(typename Wide<T>::Type x) {
  return static_cast<T>(x);
}
template <>
__device__ bf16 narrow<bf16>(double x) {
  return __float2bfloat16(static_cast<float>(x));
}

template <class T>
__global__ void reduce_kernel(T* out, const T* parts, int64_t count, int64_t n, Reduction op) {
  const int64_t step = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < n; i += step) {
    auto value = widen(parts[i]);
    for (int64_t p = 1; p < count; ++p) {
      const auto other = widen(parts[p * n + i]);
      if (op == Reduction::kSum) value += other;
      if (op == Reduction::kMax) value = other > value ? other : value;
      if (op == Reduction::kMin) value = other < value ? other : value;
    }
    out[i] = narrow<T>(value);
  }
}

template <class T>
void launch(cudaStream_t stream, void* out, const void* parts, int64_t count, int64_t n,
            Reduction op) {
  reduce_kernel<<<grid_for(n, kThreads, 4096), kThreads, 0, stream>>>(
      static_cast<T*>(out), static_cast<const T*>(parts), count, n, op);
}

}  // namespace

void reduce_parts(cudaStream_t stream, DType dtype, int64_t count, int64_t n, void* out,
                  const void* parts, Reduction op) {
  if (n == 0) return;
  switch (dtype) {
    case DType::kFloat64:
      launch<double>(stream, out, parts, count, n, op);
      break;
    case DType::kFloat32:
      launch<float>(stream, out, parts, count, n, op);
      break;
    case DType::kBFloat16:
      launch<bf16>(stream, out, parts, count, n, op);
      break;
    case DType::kInt32:
      launch<int32_t>(stream, out, parts, count, n, op);
      break;
    case DType::kInt64:
      launch<int64_t>(stream, out, parts, count, n, op);
      break;
    default:
      expects(false, "ranks reduce float64, float32, bfloat16, int32 and int64");
  }
  check_launch("reduce_parts");
}

}  // namespace verlcpp::cuda
