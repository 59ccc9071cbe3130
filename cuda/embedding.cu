#include "cuda/check.h"
#include "cuda/device.cuh"
#include "cuda/kernels.h"

namespace verlcpp::cuda {
namespace {

constexpr int kThreads = 128;

template <class T>
__global__ void embedding_kernel(int64_t vocab, int64_t width, int64_t first, T* out,
                                 const T* table, const int32_t* ids) {
  const int64_t t = blockIdx.x, id = ids[t] - first;
  const bool mine = id >= 0 && id < vocab;
  for (int64_t i = threadIdx.x; i < width; i += blockDim.x) {
    out[t * width + i] = mine ? table[id * width + i] : from_float<T>(0.0f);
  }
}

/// The block of a token's first occurrence adds up all of its occurrences in row order, so that no
/// two blocks write one row of the table.
template <class T>
__global__ void embedding_backward_kernel(int64_t rows, int64_t vocab, int64_t width, int64_t first,
                                          float* d_table, const T* d_out, const int32_t* ids) {
  const int64_t t = blockIdx.x;
  const int32_t id = ids[t];
  if (id < first || id >= first + vocab) return;
  int earlier = 0;
  for (int64_t s = threadIdx.x; s < t; s += blockDim.x) earlier |= ids[s] == id;
  if (__syncthreads_or(earlier)) return;
  float* row = d_table + (id - first) * width;
  for (int64_t i = threadIdx.x; i < width; i += blockDim.x) {
    float sum = row[i];
    for (int64_t s = t; s < rows; ++s) {
      if (ids[s] == id) sum += to_float(d_out[s * width + i]);
    }
    row[i] = sum;
  }
}

}  // namespace

void embedding(cudaStream_t stream, DType dtype, int64_t rows, int64_t vocab, int64_t width,
               int64_t first, void* out, const void* table, const int32_t* ids) {
  if (rows * width == 0) return;
  dispatch(dtype, [&]<class T>() {
    embedding_kernel<<<static_cast<unsigned>(rows), kThreads, 0, stream>>>(
        vocab, width, first, static_cast<T*>(out), static_cast<const T*>(table), ids);
  });
  check_launch("embedding");
}

void embedding_backward(cudaStream_t stream, DType dtype, int64_t rows, int64_t vocab,
                        int64_t width, int64_t first, float* d_table, const void* d_out,
                        const int32_t* ids) {
  if (rows * width == 0) return;
  dispatch(dtype, [&]<class T>() {
    embedding_backward_kernel<<<static_cast<unsigned>(rows), kThreads, 0, stream>>>(
        rows, vocab, width, first, d_table, static_cast<const T*>(d_out), ids);
  });
  check_launch("embedding_backward");
}

}  // namespace verlcpp::cuda
