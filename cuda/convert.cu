#include <cuda_fp16.h>

#include "cuda/check.h"
#include "cuda/device.cuh"
#include "cuda/kernels.h"

namespace verlcpp::cuda {
namespace {

__device__ inline double widen(double x) { return x; }
__device__ inline double widen(float x) { return x; }
__device__ inline double widen(bf16 x) { return __bfloat162float(x); }
__device__ inline double widen(__half x) { return __half2float(x); }

template <class T>
__device__ inline T narrow(double x) {
  if constexpr (sizeof(T) > 2) {
    return static_cast<T>(x);
  } else if constexpr (std::is_same_v<T, bf16>) {
    return __double2bfloat16(x);
  } else {
    return __double2half(x);
  }
}

template <class Out, class In>
__global__ void convert_kernel(int64_t n, Out* out, const In* in) {
  const int64_t stride = int64_t{blockDim.x} * gridDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < n; i += stride) {
    out[i] = narrow<Out>(widen(in[i]));
  }
}

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
      convert_kernel<<<grid_for(n, 256, 4096), 256, 0, stream>>>(n, static_cast<Out*>(out),
                                                                 static_cast<const In*>(in));
    });
  });
  check_launch("convert");
}

}  // namespace verlcpp::cuda
