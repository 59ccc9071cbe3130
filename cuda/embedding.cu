#include <cub/device/device_radix_sort.cuh>

#include "cuda/check.h"
#include "cuda/device.cuh"
#include "cuda/kernels.h"

namespace verlcpp::cuda {
namespace {

constexpr int kThreads = 128;

template <class Word>
__global__ void embedding_kernel(int64_t rows, int64_t vocab, int64_t words, int64_t first,
                                 Word* out, const Word* table, const int32_t* ids) {
  const int64_t t = int64_t{blockIdx.x} * blockDim.y + threadIdx.y;
  if (t >= rows) return;
  const int64_t id = ids[t] - first;
  const bool mine = id >= 0 && id < vocab;
  for (int64_t i = threadIdx.x; i < words; i += blockDim.x) {
    out[t * words + i] = mine ? table[id * words + i] : Word{};
  }
}

__global__ void count_up_kernel(int64_t rows, int32_t* out) {
  const int64_t t = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (t < rows) out[t] = static_cast<int32_t>(t);
}

/// First place after `at` whose id is another one: in strides that double, since most ids occur
/// once or twice, and then by halving the last.
__device__ int64_t segment_end(const int32_t* ids, int64_t at, int64_t rows) {
  const int32_t id = ids[at];
  int64_t low = at + 1, high = low, stride = 1;
  while (high < rows && ids[high] == id) {
    low = high + 1;
    high += stride;
    stride *= 2;
  }
  if (high > rows) high = rows;
  while (low < high) {
    const int64_t middle = low + (high - low) / 2;
    if (ids[middle] == id) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

/// `ids` are sorted, `order` has the row of each, rising within an id. The blocks of an id's first
/// place, one per kThreads packs of columns, add up all of its rows in row order; the others have
/// nothing to do.
template <class T, int W>
__global__ void embedding_backward_kernel(int64_t rows, int64_t vocab, int64_t width, int64_t first,
                                          float* d_table, const T* d_out, const int32_t* ids,
                                          const int32_t* order) {
  const int64_t at = blockIdx.x, i = (int64_t{blockIdx.y} * kThreads + threadIdx.x) * W;
  const int32_t id = ids[at];
  if (id < first || id >= first + vocab || i >= width) return;
  if (at > 0 && ids[at - 1] == id) return;
  const int64_t end = segment_end(ids, at, rows);
  float* out = d_table + (id - first) * width + i;
  Pack<float, W> sum = load<W>(out);
#pragma unroll 8
  for (int64_t s = at; s < end; ++s) {
    const Pack<T, W> d = load<W>(d_out + order[s] * width + i);
#pragma unroll
    for (int e = 0; e < W; ++e) sum.at[e] += d[e];
  }
  store(out, sum);
}

/// Room for the sort: its own, the rows, and both in order.
struct Workspace {
  static int64_t aligned(int64_t bytes) { return (bytes + 255) / 256 * 256; }
  explicit Workspace(int64_t rows)
      : list(aligned(rows * static_cast<int64_t>(sizeof(int32_t)))), count(static_cast<int>(rows)) {
    check(sort(nullptr, nullptr, nullptr), "the workspace of a sort");
  }
  int64_t bytes() const { return 3 * list + static_cast<int64_t>(sort_bytes); }
  int32_t* part(std::byte* base, int64_t index) const {
    return reinterpret_cast<int32_t*>(base + index * list);
  }
  /// Stable. Without a base it only finds out how many bytes it needs.
  cudaError_t sort(std::byte* base, const int32_t* ids, cudaStream_t stream) {
    return cub::DeviceRadixSort::SortPairs(base == nullptr ? nullptr : base + 3 * list, sort_bytes,
                                           ids, part(base, 0), part(base, 1), part(base, 2), count,
                                           0, 32, stream);
  }
  int64_t list;  // bytes of one list
  int count;
  size_t sort_bytes = 0;
};

}  // namespace

void embedding(cudaStream_t stream, DType dtype, int64_t rows, int64_t vocab, int64_t width,
               int64_t first, void* out, const void* table, const int32_t* ids) {
  if (rows * width == 0) return;
  const int64_t row_bytes = width * size_of(dtype);
  with_words(row_bytes, {out, table}, [&]<class Word>() {
    const int64_t words = row_bytes / static_cast<int64_t>(sizeof(Word));
    const dim3 block = row_block(words);
    embedding_kernel<<<grid_for(rows, block.y), block, 0, stream>>>(
        rows, vocab, words, first, static_cast<Word*>(out), static_cast<const Word*>(table), ids);
  });
  check_launch("embedding");
}

int64_t embedding_workspace(int64_t rows) { return rows == 0 ? 0 : Workspace(rows).bytes(); }

void embedding_backward(cudaStream_t stream, DType dtype, int64_t rows, int64_t vocab,
                        int64_t width, int64_t first, float* d_table, const void* d_out,
                        const int32_t* ids, std::byte* workspace) {
  if (rows * width == 0) return;
  Workspace w(rows);
  count_up_kernel<<<grid_for(rows, kThreads), kThreads, 0, stream>>>(rows, w.part(workspace, 1));
  check(w.sort(workspace, ids, stream), "the sort of token ids");
  const bool wide = in_sixteens(width * size_of(dtype), {d_table, d_out});
  dispatch_wide(dtype, wide, [&]<class T, int W>() {
    const dim3 grid(static_cast<unsigned>(rows), grid_for(width, kThreads * W));
    embedding_backward_kernel<T, W><<<grid, kThreads, 0, stream>>>(
        rows, vocab, width, first, d_table, static_cast<const T*>(d_out), w.part(workspace, 0),
        w.part(workspace, 2));
  });
  check_launch("embedding_backward");
}

}  // namespace verlcpp::cuda
