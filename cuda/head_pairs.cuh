#pragma once

#include <algorithm>
#include <cstdint>

#include "cuda/device.cuh"

// Rows of heads, visited by pairs: a thread has W elements of a head's first half and the W that
// RoPE pairs with them, always of the same columns. threadIdx.y are rows.

namespace verlcpp::cuda {

struct Visit {
  dim3 grid, block;
};

/// Blocks of about 256 threads over `columns` places in each of the rows, at most so many along the
/// rows, which they then take in turn.
inline Visit visit_rows(int64_t rows, int64_t columns, int64_t most = int64_t{1} << 30) {
  const auto x = static_cast<unsigned>(std::min<int64_t>(columns, 256)), y = std::max(1u, 256 / x);
  return {.grid = {grid_for(rows, y, most), grid_for(columns, x)}, .block = {x, y}};
}

__device__ inline int visited_column() {
  return static_cast<int>(blockIdx.y * blockDim.x + threadIdx.x);
}
__device__ inline int64_t visited_row() { return int64_t{blockIdx.x} * blockDim.y + threadIdx.y; }
__device__ inline int64_t visited_stride() { return int64_t{gridDim.x} * blockDim.y; }

template <int W>
__device__ void rotate(float (&a)[W], float (&b)[W], const Pack<float, W>& cosine,
                       const Pack<float, W>& sine, float sign) {
#pragma unroll
  for (int e = 0; e < W; ++e) {
    const float x = a[e], y = b[e], c = cosine[e], s = sign * sine[e];
    a[e] = x * c - y * s;
    b[e] = y * c + x * s;
  }
}
/// Turns the pairs (a, b) by the angles whose cosines are at `table`, sines `half` behind.
template <int W>
__device__ void rotate(float (&a)[W], float (&b)[W], const float* table, int half, float sign) {
  rotate<W>(a, b, load<W>(table), load<W>(table + half), sign);
}

template <class T, int W>
__device__ void load_floats(float (&to)[W], const T* from) {
  const Pack<T, W> pack = load<W>(from);
#pragma unroll
  for (int e = 0; e < W; ++e) to[e] = pack[e];
}

}  // namespace verlcpp::cuda
