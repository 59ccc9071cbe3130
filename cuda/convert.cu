#include <cuda_fp16.h>

#include "cuda/check.h"
#include "cuda/device.cuh"
#include "cuda/kernels.h"

namespace verlcpp::cuda {
namespace {

__device__ inline double widen(double x) { return x; }
__device__ inline float widen(float x) { return x; }
__device__ inline float widen(bf16 x) { return __bfloat162float(x); }
__device__ inline float widen(__half x) { return __half2float(x); }

/// From float or double.
template <class T, class Wide>
__device__ inline T narrow(Wide x) {
  if constexpr (sizeof(T) > 2) {
    return static_cast<T>(x);
  } else if constexpr (std::is_same_v<T, bf16>) {
    if constexpr (sizeof(Wide) == 8) return __double2bfloat16(x);
    return __float2bfloat16(static_cast<float>(x));
  } else {
    if constexpr (sizeof(Wide) == 8) return __double2half(x);
    return __float2half(static_cast<float>(x));
  }
}

template <class T, int W>
struct alignas(W == 1 ? sizeof(T) : 16) Elements {
  T at[W];
};

template <class Out, class In, int W>
__global__ void convert_kernel(int64_t n, Out* out, const In* in) {
  const int64_t i = (int64_t{blockIdx.x} * blockDim.x + threadIdx.x) * W;
  if (i + W <= n) {
    const auto from = *reinterpret_cast<const Elements<In, W>*>(in + i);
    Elements<Out, W> to;
#pragma unroll
    for (int e = 0; e < W; ++e) to.at[e] = narrow<Out>(widen(from.at[e]));
    *reinterpret_cast<Elements<Out, W>*>(out + i) = to;
  } else {
    for (int64_t e = i; e < n; ++e) out[e] = narrow<Out>(widen(in[e]));
  }
}

constexpr int kThreads = 256;

template <class Body>
void with_float(DType dtype, Body body) {
  switch (dtype) {
    case DType::kFloat64:
      return body.template operator()<double>();
    case DType::kFloat32:
      return body.template operator()<float>();
    case DType::kBFloat16:
      return body.template operator()<bf16>();
    case DType::kFloat16:
      return body.template operator()<__half>();
    default:
      expects(false, "only floating dtypes convert");
  }
}

}  // namespace

void convert(cudaStream_t stream, int64_t n, void* out, DType out_dtype, const void* in,
             DType in_dtype) {
  if (n == 0) return;
  with_float(out_dtype, [&]<class Out>() {
    with_float(in_dtype, [&]<class In>() {
      const auto launch = [&]<int W>() {
        convert_kernel<Out, In, W><<<grid_for(n, kThreads * W), kThreads, 0, stream>>>(
            n, static_cast<Out*>(out), static_cast<const In*>(in));
      };
      if (in_sixteens(0, {out, in})) {
        launch.template operator()<8>();
      } else {
        launch.template operator()<1>();
      }
    });
  });
  check_launch("convert");
}

}  // namespace verlcpp::cuda
