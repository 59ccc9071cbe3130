#include "cuda/check.h"
#include "cuda/device.cuh"
#include "cuda/kernels.h"

namespace verlcpp::cuda {
namespace {

constexpr int kThreads = 256;

/// First of the W elements that are this thread's. The last thread may have fewer.
template <int W>
__device__ int64_t first_element() {
  return (int64_t{blockIdx.x} * blockDim.x + threadIdx.x) * W;
}

template <class T, int W>
__global__ void add_kernel(int64_t n, T* out, const T* a, const T* b) {
  const int64_t i = first_element<W>();
  if (i + W <= n) {
    const Pack<T, W> one = load<W>(a + i), other = load<W>(b + i);
    float sum[W];
#pragma unroll
    for (int e = 0; e < W; ++e) sum[e] = one[e] + other[e];
    store(out + i, sum);
  } else {
    for (int64_t e = i; e < n; ++e) out[e] = from_float<T>(to_float(a[e]) + to_float(b[e]));
  }
}

template <class T, int W>
__global__ void add_to_kernel(int64_t n, float* sum, const T* x) {
  const int64_t i = first_element<W>();
  if (i + W <= n) {
    Pack<float, W> total = load<W>(sum + i);
    const Pack<T, W> more = load<W>(x + i);
#pragma unroll
    for (int e = 0; e < W; ++e) total.at[e] += more[e];
    store(sum + i, total);
  } else {
    for (int64_t e = i; e < n; ++e) sum[e] += to_float(x[e]);
  }
}

__global__ void fill_kernel(int64_t n, float* x, float value) {
  const int64_t stride = int64_t{blockDim.x} * gridDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < n; i += stride) x[i] = value;
}

/// A block sums 32 columns: its 32 warps take rows in turn, so that the whole stands in flight at
/// once; then a warp adds up what the warps have of one column.
__global__ void add_rows_kernel(int64_t rows, int64_t width, float* out, const float* parts) {
  __shared__ float sums[32][33];  // one more, or a column would lie in one bank
  const int64_t first = int64_t{blockIdx.x} * 32, column = first + threadIdx.x;
  float sum = 0;
  if (column < width) {
#pragma unroll 8
    for (int64_t r = threadIdx.y; r < rows; r += 32) sum += parts[r * width + column];
  }
  sums[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  const float total = warp_sum(sums[threadIdx.x][threadIdx.y]);
  if (threadIdx.x == 0 && first + threadIdx.y < width) out[first + threadIdx.y] += total;
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
  dispatch_wide(dtype, in_sixteens(0, {out, a, b}), [&]<class T, int W>() {
    add_kernel<T, W><<<grid_for(n, kThreads * W), kThreads, 0, stream>>>(
        n, static_cast<T*>(out), static_cast<const T*>(a), static_cast<const T*>(b));
  });
  check_launch("add");
}

void add_to(cudaStream_t stream, int64_t n, float* sum, DType dtype, const void* x) {
  if (n == 0) return;
  dispatch_wide(dtype, in_sixteens(0, {sum, x}), [&]<class T, int W>() {
    add_to_kernel<T, W>
        <<<grid_for(n, kThreads * W), kThreads, 0, stream>>>(n, sum, static_cast<const T*>(x));
  });
  check_launch("add_to");
}

void fill(cudaStream_t stream, int64_t n, float* x, float value) {
  if (n == 0) return;
  fill_kernel<<<grid_for(n, kThreads, 4096), kThreads, 0, stream>>>(n, x, value);
  check_launch("fill");
}

void add_rows(cudaStream_t stream, int64_t rows, int64_t width, float* out, const float* parts) {
  add_rows_kernel<<<grid_for(width, 32), dim3(32, 32), 0, stream>>>(rows, width, out, parts);
  check_launch("add_rows");
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
