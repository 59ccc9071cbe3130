#include <algorithm>

#include "cuda/check.h"
#include "cuda/device.cuh"
#include "cuda/kernels.h"

namespace verlcpp::cuda {
namespace {

constexpr int kThreads = 128;

/// Exact functions would take longer than the memory does.
template <class T>
__device__ float sigmoid(float x) {
  if constexpr (sizeof(T) == 2) return fast_sigmoid(x);
  return 1.0f / (1.0f + expf(-x));
}

/// Places of W columns in a row along x, rows along y, so that no element needs a division.
template <int W>
__device__ int column() {
  return static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x) * W;
}

template <class T, int W>
__global__ void swiglu_kernel(int64_t rows, int ffn, T* out, const T* gate_up) {
  const int i = column<W>();
  if (i >= ffn) return;
  for (int64_t t = blockIdx.y; t < rows; t += gridDim.y) {
    const T* from = gate_up + t * 2 * ffn + i;
    const Pack<T, W> gate = load<W>(from), up = load<W>(from + ffn);
    float y[W];
#pragma unroll
    for (int e = 0; e < W; ++e) y[e] = gate[e] * sigmoid<T>(gate[e]) * up[e];
    store(out + t * ffn + i, y);
  }
}

template <class T, int W>
__global__ void swiglu_backward_kernel(int64_t rows, int ffn, T* d_gate_up, const T* d_out,
                                       const T* gate_up) {
  const int i = column<W>();
  if (i >= ffn) return;
  for (int64_t t = blockIdx.y; t < rows; t += gridDim.y) {
    const int64_t place = t * 2 * ffn + i;
    const Pack<T, W> gate = load<W>(gate_up + place), up = load<W>(gate_up + place + ffn);
    const Pack<T, W> d_y = load<W>(d_out + t * ffn + i);
    float d_gate[W], d_up[W];
#pragma unroll
    for (int e = 0; e < W; ++e) {
      const float g = gate[e], s = sigmoid<T>(g);
      d_gate[e] = d_y[e] * up[e] * s * (1.0f + g * (1.0f - s));
      d_up[e] = d_y[e] * g * s;
    }
    store(d_gate_up + place, d_gate);
    store(d_gate_up + place + ffn, d_up);
  }
}

dim3 grid_of(int64_t rows, int64_t ffn, int per_thread) {
  return {grid_for(ffn, kThreads * per_thread),
          static_cast<unsigned>(std::min<int64_t>(rows, 65535))};
}

}  // namespace

void swiglu(cudaStream_t stream, DType dtype, int64_t rows, int64_t ffn, void* out,
            const void* gate_up) {
  if (rows * ffn == 0) return;
  dispatch_wide(dtype, in_sixteens(ffn * size_of(dtype), {out, gate_up}), [&]<class T, int W>() {
    swiglu_kernel<T, W><<<grid_of(rows, ffn, W), kThreads, 0, stream>>>(
        rows, static_cast<int>(ffn), static_cast<T*>(out), static_cast<const T*>(gate_up));
  });
  check_launch("swiglu");
}

void swiglu_backward(cudaStream_t stream, DType dtype, int64_t rows, int64_t ffn, void* d_gate_up,
                     const void* d_out, const void* gate_up) {
  if (rows * ffn == 0) return;
  const bool wide = in_sixteens(ffn * size_of(dtype), {d_gate_up, d_out, gate_up});
  dispatch_wide(dtype, wide, [&]<class T, int W>() {
    swiglu_backward_kernel<T, W><<<grid_of(rows, ffn, W), kThreads, 0, stream>>>(
        rows, static_cast<int>(ffn), static_cast<T*>(d_gate_up), static_cast<const T*>(d_out),
        static_cast<const T*>(gate_up));
  });
  check_launch("swiglu_backward");
}

}  // namespace verlcpp::cuda
