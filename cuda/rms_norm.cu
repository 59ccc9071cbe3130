#include "cuda/check.h"
#include "cuda/device.cuh"
#include "cuda/kernels.h"

namespace verlcpp::cuda {
namespace {

constexpr int kThreads = 256;

template <class T>
__global__ void rms_norm_kernel(int64_t width, T* y, float* rstd, const T* x, const T* w,
                                float eps) {
  const int64_t t = blockIdx.x;
  x += t * width;
  y += t * width;
  float sum = 0;
  for (int64_t i = threadIdx.x; i < width; i += blockDim.x) {
    const float v = to_float(x[i]);
    sum += v * v;
  }
  const float scale = rsqrtf(block_sum(sum) / static_cast<float>(width) + eps);
  if (threadIdx.x == 0) rstd[t] = scale;
  for (int64_t i = threadIdx.x; i < width; i += blockDim.x) {
    y[i] = from_float<T>(to_float(x[i]) * scale * to_float(w[i]));
  }
}

/// Block b takes rows b, b + gridDim, ... and sums its part of d_w into partial_w[b].
template <class T>
__global__ void rms_norm_backward_kernel(int64_t rows, int64_t width, T* d_x, const T* d_y,
                                         const T* x, const T* w, const float* rstd,
                                         float* partial_w) {
  float* mine = partial_w + int64_t{blockIdx.x} * width;
  for (int64_t i = threadIdx.x; i < width; i += blockDim.x) mine[i] = 0;
  for (int64_t t = blockIdx.x; t < rows; t += gridDim.x) {
    const T *x_t = x + t * width, *d_y_t = d_y + t * width;
    T* d_x_t = d_x + t * width;
    const float scale = rstd[t];
    float dot = 0;
    for (int64_t i = threadIdx.x; i < width; i += blockDim.x) {
      dot += to_float(d_y_t[i]) * to_float(w[i]) * to_float(x_t[i]) * scale;
    }
    const float mean = block_sum(dot) / static_cast<float>(width);
    for (int64_t i = threadIdx.x; i < width; i += blockDim.x) {
      const float n = to_float(x_t[i]) * scale, d = to_float(d_y_t[i]);
      mine[i] += d * n;
      d_x_t[i] = from_float<T>(scale * (d * to_float(w[i]) - n * mean));
    }
  }
}

__global__ void add_rows_kernel(int blocks, int64_t width, float* d_w, const float* partial_w) {
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= width) return;
  float sum = 0;
  for (int b = 0; b < blocks; ++b) sum += partial_w[b * width + i];
  d_w[i] += sum;
}

int threads_for(int64_t width) { return width >= 256 ? kThreads : width >= 64 ? 64 : 32; }

}  // namespace

void rms_norm(cudaStream_t stream, DType dtype, int64_t rows, int64_t width, void* y, float* rstd,
              const void* x, const void* w, double eps) {
  if (rows == 0) return;
  dispatch(dtype, [&]<class T>() {
    rms_norm_kernel<<<static_cast<unsigned>(rows), threads_for(width), 0, stream>>>(
        width, static_cast<T*>(y), rstd, static_cast<const T*>(x), static_cast<const T*>(w),
        static_cast<float>(eps));
  });
  check_launch("rms_norm");
}

void rms_norm_backward(cudaStream_t stream, DType dtype, int64_t rows, int64_t width, void* d_x,
                       float* d_w, const void* d_y, const void* x, const void* w, const float* rstd,
                       float* partial_w) {
  if (rows == 0) return;
  const auto blocks = static_cast<int>(rows < kNormBlocks ? rows : kNormBlocks);
  dispatch(dtype, [&]<class T>() {
    rms_norm_backward_kernel<<<static_cast<unsigned>(blocks), threads_for(width), 0, stream>>>(
        rows, width, static_cast<T*>(d_x), static_cast<const T*>(d_y), static_cast<const T*>(x),
        static_cast<const T*>(w), rstd, partial_w);
  });
  add_rows_kernel<<<grid_for(width, 128), 128, 0, stream>>>(blocks, width, d_w, partial_w);
  check_launch("rms_norm_backward");
}

}  // namespace verlcpp::cuda
