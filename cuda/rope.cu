#include "cuda/check.h"
#include "cuda/head_pairs.cuh"
#include "cuda/kernels.h"

namespace verlcpp::cuda {
namespace {

/// The angle is formed in double, since position * inv_freq in float loses digits that a sine of a
/// long context needs. That is slow, but once for all layers.
__global__ void rope_table_kernel(int64_t rows, int half, float* table, const int32_t* positions,
                                  const float* inv_freq) {
  const int i = visited_column();
  const int64_t t = visited_row();
  if (t >= rows || i >= half) return;
  double sine, cosine;
  sincos(static_cast<double>(positions[t]) * static_cast<double>(inv_freq[i]), &sine, &cosine);
  table[t * 2 * half + i] = static_cast<float>(cosine);
  table[t * 2 * half + half + i] = static_cast<float>(sine);
}

template <class T, int W>
__global__ void rope_kernel(int64_t rows, int heads, int half, T* x, const float* table,
                            float sign) {
  const int column = visited_column(), pairs = half / W;
  const int64_t t = visited_row();
  if (t >= rows || column >= heads * pairs) return;
  const int head = column / pairs, i = column % pairs * W;
  T* place = x + (t * heads + head) * 2 * half + i;
  float a[W], b[W];
  load_floats<T, W>(a, place);
  load_floats<T, W>(b, place + half);
  rotate<W>(a, b, table + t * 2 * half + i, half, sign);
  store(place, a);
  store(place + half, b);
}

}  // namespace

void rope_table(cudaStream_t stream, int64_t rows, int64_t head_dim, float* table,
                const int32_t* positions, const float* inv_freq) {
  const int64_t half = head_dim / 2;
  if (rows * half == 0) return;
  const Visit visit = visit_rows(rows, half);
  rope_table_kernel<<<visit.grid, visit.block, 0, stream>>>(rows, static_cast<int>(half), table,
                                                            positions, inv_freq);
  check_launch("rope_table");
}

void rope(cudaStream_t stream, DType dtype, int64_t rows, int64_t heads, int64_t head_dim, void* x,
          const float* table, bool inverse) {
  const int64_t half = head_dim / 2;
  if (rows * heads * half == 0) return;
  dispatch_wide(dtype, in_sixteens(half * size_of(dtype), {x, table}), [&]<class T, int W>() {
    const Visit visit = visit_rows(rows, heads * half / W);
    rope_kernel<T, W><<<visit.grid, visit.block, 0, stream>>>(
        rows, static_cast<int>(heads), static_cast<int>(half), static_cast<T*>(x), table,
        inverse ? -1.0f : 1.0f);
  });
  check_launch("rope");
}

}  // namespace verlcpp::cuda
