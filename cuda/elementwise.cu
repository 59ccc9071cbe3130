#include "cuda/check.h"
#include "cuda/device.cuh"
#include "cuda/kernels.h"

namespace verlcpp::cuda {
namespace {

constexpr int kThreads = 256;

template <class T>
__global__ void add_kernel(int64_t n, T* out, const T* a, const T* b) {
  const int64_t stride = int64_t{blockDim.x} * gridDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < n; i += stride) {
    out[i] = from_float<T>(to_float(a[i]) + to_float(b[i]));
  }
}

template <class T>
__global__ void add_to_kernel(int64_t n, float* sum, const T* x) {
  const int64_t stride = int64_t{blockDim.x} * gridDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < n; i += stride) {
    sum[i] += to_float(x[i]);
  }
}

__global__ void fill_kernel(int64_t n, float* x, float value) {
  const int64_t stride = int64_t{blockDim.x} * gridDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < n; i += stride) x[i] = value;
}

template <class T>
__global__ void add_bias_kernel(int64_t n, int64_t width, T* x, const T* bias) {
  const int64_t stride = int64_t{blockDim.x} * gridDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < n; i += stride) {
    x[i] = from_float<T>(to_float(x[i]) + to_float(bias[i % width]));
  }
}

/// A block sums 32 columns: its 8 warps take rows in turn, then add up.
template <class T>
__global__ void add_bias_backward_kernel(int64_t rows, int64_t width, float* d_bias, const T* d_y) {
  __shared__ float part[8][32];
  const int64_t column = int64_t{blockIdx.x} * 32 + threadIdx.x;
  float sum = 0;
  if (column < width) {
    for (int64_t t = threadIdx.y; t < rows; t += 8) sum += to_float(d_y[t * width + column]);
  }
  part[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y != 0 || column >= width) return;
  for (int w = 1; w < 8; ++w) sum += part[w][threadIdx.x];
  d_bias[column] += sum;
}

template <class T>
__global__ void square_sums_kernel(int64_t n, double* partial, const T* x) {
  double sum = 0;
  const int64_t stride = int64_t{blockDim.x} * gridDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < n; i += stride) {
    const double v = to_float(x[i]);
    sum += v * v;
  }
  sum = block_sum(sum);
  if (threadIdx.x == 0) partial[blockIdx.x] = sum;
}

/// Partial sums in a fixed order.
__global__ void add_partials_kernel(int blocks, double* out, const double* partial) {
  double sum = 0;
  for (int i = static_cast<int>(threadIdx.x); i < blocks; i += static_cast<int>(blockDim.x)) {
    sum += partial[i];
  }
  sum = block_sum(sum);
  if (threadIdx.x == 0) *out += sum;
}

}  // namespace

void add(cudaStream_t stream, DType dtype, int64_t n, void* out, const void* a, const void* b) {
  if (n == 0) return;
  dispatch(dtype, [&]<class T>() {
    add_kernel<<<grid_for(n, kThreads, 8192), kThreads, 0, stream>>>(
        n, static_cast<T*>(out), static_cast<const T*>(a), static_cast<const T*>(b));
  });
  check_launch("add");
}

void add_to(cudaStream_t stream, int64_t n, float* sum, DType dtype, const void* x) {
  if (n == 0) return;
  dispatch(dtype, [&]<class T>() {
    add_to_kernel<<<grid_for(n, kThreads, 4096), kThreads, 0, stream>>>(n, sum,
                                                                        static_cast<const T*>(x));
  });
  check_launch("add_to");
}

void fill(cudaStream_t stream, int64_t n, float* x, float value) {
  if (n == 0) return;
  fill_kernel<<<grid_for(n, kThreads, 4096), kThreads, 0, stream>>>(n, x, value);
  check_launch("fill");
}

void add_bias(cudaStream_t stream, DType dtype, int64_t rows, int64_t width, void* x,
              const void* bias) {
  const int64_t n = rows * width;
  if (n == 0) return;
  dispatch(dtype, [&]<class T>() {
    add_bias_kernel<<<grid_for(n, kThreads, 8192), kThreads, 0, stream>>>(
        n, width, static_cast<T*>(x), static_cast<const T*>(bias));
  });
  check_launch("add_bias");
}

void add_bias_backward(cudaStream_t stream, DType dtype, int64_t rows, int64_t width, float* d_bias,
                       const void* d_y) {
  if (rows * width == 0) return;
  dispatch(dtype, [&]<class T>() {
    add_bias_backward_kernel<<<grid_for(width, 32), dim3(32, 8), 0, stream>>>(
        rows, width, d_bias, static_cast<const T*>(d_y));
  });
  check_launch("add_bias_backward");
}

void sum_squares(cudaStream_t stream, DType dtype, int64_t n, double* out, double* partial,
                 const void* x) {
  if (n == 0) return;
  const unsigned blocks = grid_for(n, kThreads * 4, kSumBlocks);
  dispatch(dtype, [&]<class T>() {
    square_sums_kernel<<<blocks, kThreads, 0, stream>>>(n, partial, static_cast<const T*>(x));
  });
  add_partials_kernel<<<1, kThreads, 0, stream>>>(static_cast<int>(blocks), out, partial);
  check_launch("sum_squares");
}

}  // namespace verlcpp::cuda
