#include "cuda/check.h"
#include "cuda/device.cuh"
#include "cuda/kernels.h"

namespace verlcpp::cuda {
namespace {

constexpr int kThreads = 128;

/// Row `from(r)` of in to row `to(r)` of out, in words of two bytes.
template <bool kGather>
__global__ void move_rows_kernel(int64_t words, uint16_t* out, const uint16_t* x,
                                 const int32_t* index) {
  const int64_t r = blockIdx.x, other = index[r];
  uint16_t* to = out + (kGather ? r : other) * words;
  const uint16_t* from = x + (kGather ? other : r) * words;
  for (int64_t i = threadIdx.x; i < words; i += blockDim.x) to[i] = from[i];
}

}  // namespace

void gather_rows(cudaStream_t stream, int64_t rows, int64_t row_bytes, void* out, const void* x,
                 const int32_t* index) {
  if (rows * row_bytes == 0) return;
  move_rows_kernel<true><<<static_cast<unsigned>(rows), kThreads, 0, stream>>>(
      row_bytes / 2, static_cast<uint16_t*>(out), static_cast<const uint16_t*>(x), index);
  check_launch("gather_rows");
}

void scatter_rows(cudaStream_t stream, int64_t rows, int64_t row_bytes, void* out, const void* x,
                  const int32_t* index) {
  if (rows * row_bytes == 0) return;
  move_rows_kernel<false><<<static_cast<unsigned>(rows), kThreads, 0, stream>>>(
      row_bytes / 2, static_cast<uint16_t*>(out), static_cast<const uint16_t*>(x), index);
  check_launch("scatter_rows");
}

void copy_columns(cudaStream_t stream, int64_t rows, int64_t bytes, void* out, int64_t out_pitch,
                  const void* in, int64_t in_pitch) {
  if (rows * bytes == 0) return;
  check(cudaMemcpy2DAsync(out, static_cast<size_t>(out_pitch), in, static_cast<size_t>(in_pitch),
                          static_cast<size_t>(bytes), static_cast<size_t>(rows),
                          cudaMemcpyDeviceToDevice, stream),
        "copy_columns");
}

}  // namespace verlcpp::cuda
