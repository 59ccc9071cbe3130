#include "cuda/check.h"
#include "cuda/device.cuh"
#include "cuda/kernels.h"

namespace verlcpp::cuda {
namespace {

/// Row `from(r)` of in to row `to(r)` of out. Rows along threadIdx.y, their words along x.
template <class Word, bool kGather>
__global__ void move_rows_kernel(int64_t rows, int64_t words, Word* out, const Word* x,
                                 const int32_t* index) {
  const int64_t r = int64_t{blockIdx.x} * blockDim.y + threadIdx.y;
  if (r >= rows) return;
  const int64_t other = index[r];
  Word* to = out + (kGather ? r : other) * words;
  const Word* from = x + (kGather ? other : r) * words;
  for (int64_t i = threadIdx.x; i < words; i += blockDim.x) to[i] = from[i];
}

template <class Word>
__global__ void copy_words_kernel(int64_t words, Word* out, const Word* x) {
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < words) out[i] = x[i];
}

template <bool kGather>
void move_rows(cudaStream_t stream, int64_t rows, int64_t row_bytes, void* out, const void* x,
               const int32_t* index) {
  if (rows * row_bytes == 0) return;
  const auto launch = [&]<class Word>() {
    const int64_t words = row_bytes / static_cast<int64_t>(sizeof(Word));
    const dim3 block = row_block(words);
    move_rows_kernel<Word, kGather><<<grid_for(rows, block.y), block, 0, stream>>>(
        rows, words, static_cast<Word*>(out), static_cast<const Word*>(x), index);
  };
  with_words(row_bytes, {out, x}, launch);
}

}  // namespace

void gather_rows(cudaStream_t stream, int64_t rows, int64_t row_bytes, void* out, const void* x,
                 const int32_t* index) {
  move_rows<true>(stream, rows, row_bytes, out, x, index);
  check_launch("gather_rows");
}

void scatter_rows(cudaStream_t stream, int64_t rows, int64_t row_bytes, void* out, const void* x,
                  const int32_t* index) {
  move_rows<false>(stream, rows, row_bytes, out, x, index);
  check_launch("scatter_rows");
}

void copy_by_kernel(cudaStream_t stream, int64_t bytes, void* out, const void* x) {
  if (bytes == 0) return;
  with_words(bytes, {out, x}, [&]<class Word>() {
    const int64_t words = bytes / static_cast<int64_t>(sizeof(Word));
    copy_words_kernel<<<grid_for(words, 256), 256, 0, stream>>>(words, static_cast<Word*>(out),
                                                                static_cast<const Word*>(x));
  });
  check_launch("copy_by_kernel");
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
