#include "cuda/check.h"
#include "cuda/device.cuh"
#include "cuda/kernels.h"

namespace verlcpp::cuda {
namespace {

constexpr int kThreads = 256;

template <class T>
__global__ void swiglu_kernel(int64_t n, int64_t ffn, T* out, const T* gate_up) {
  const int64_t stride = int64_t{blockDim.x} * gridDim.x;
  for (int64_t k = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; k < n; k += stride) {
    const int64_t base = k / ffn * 2 * ffn + k % ffn;
    const float gate = to_float(gate_up[base]), up = to_float(gate_up[base + ffn]);
    out[k] = from_float<T>(gate / (1.0f + expf(-gate)) * up);
  }
}

template <class T>
__global__ void swiglu_backward_kernel(int64_t n, int64_t ffn, T* d_gate_up, const T* d_out,
                                       const T* gate_up) {
  const int64_t stride = int64_t{blockDim.x} * gridDim.x;
  for (int64_t k = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; k < n; k += stride) {
    const int64_t base = k / ffn * 2 * ffn + k % ffn;
    const float gate = to_float(gate_up[base]), up = to_float(gate_up[base + ffn]);
    const float sigmoid = 1.0f / (1.0f + expf(-gate)), d = to_float(d_out[k]);
    d_gate_up[base] = from_float<T>(d * up * sigmoid * (1.0f + gate * (1.0f - sigmoid)));
    d_gate_up[base + ffn] = from_float<T>(d * gate * sigmoid);
  }
}

}  // namespace

void swiglu(cudaStream_t stream, DType dtype, int64_t rows, int64_t ffn, void* out,
            const void* gate_up) {
  const int64_t n = rows * ffn;
  if (n == 0) return;
  dispatch(dtype, [&]<class T>() {
    swiglu_kernel<<<grid_for(n, kThreads, 16384), kThreads, 0, stream>>>(
        n, ffn, static_cast<T*>(out), static_cast<const T*>(gate_up));
  });
  check_launch("swiglu");
}

void swiglu_backward(cudaStream_t stream, DType dtype, int64_t rows, int64_t ffn, void* d_gate_up,
                     const void* d_out, const void* gate_up) {
  const int64_t n = rows * ffn;
  if (n == 0) return;
  dispatch(dtype, [&]<class T>() {
    swiglu_backward_kernel<<<grid_for(n, kThreads, 16384), kThreads, 0, stream>>>(
        n, ffn, static_cast<T*>(d_gate_up), static_cast<const T*>(d_out),
        static_cast<const T*>(gate_up));
  });
  check_launch("swiglu_backward");
}

}  // namespace verlcpp::cuda
