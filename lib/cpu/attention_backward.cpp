#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "cpu/kernels.h"
#include "cpu/reduce.h"

namespace verlcpp::cpu {
namespace {

/// One tile of q rows of one document and head.
struct Tile {
  int64_t rows, width;  // q rows, kv rows the last of them sees
  int64_t first;        // index of the first row in its document
  int64_t q_row, q_at;  // packed row, and element offset of q, o and their gradients
  int64_t kv_at;        // element offset of k, v and their gradients
  int64_t q_length, kv_length, head;
};

/// scores -> p = exp(score - lse); zero where not visible.
template <class T>
void probabilities(const AttentionInput<T>& in, const Tile& tile, const T* lse, T* p) {
  for (int64_t i = 0; i < tile.rows; ++i, p += tile.width) {
    const T row_lse = lse[(tile.q_row + i) * in.heads + tile.head];
    const bool empty = row_lse == -std::numeric_limits<T>::infinity();
    const int64_t visible =
        empty ? 0 : visible_rows(in.mask, tile.first + i, tile.q_length, tile.kv_length);
    for (int64_t j = 0; j < visible; ++j) p[j] = std::exp(p[j] - row_lse);
    std::fill(p + visible, p + tile.width, T{0});
  }
}

/// delta[r] = d_o . o of each (row, head).
template <class T>
std::vector<T> deltas(int64_t rows, int64_t head_dim, const T* d_o, const T* o) {
  std::vector<T> delta(static_cast<size_t>(rows));
  for (T& sum : delta) {
    sum = static_cast<T>(
        sum_of(head_dim, [&](int64_t i) { return static_cast<double>(d_o[i]) * o[i]; }));
    o += head_dim;
    d_o += head_dim;
  }
  return delta;
}

// FlashAttention-2 (Dao 2023), algorithm 2, on one tile:
// dV += P' dO, dS = P (dO V' - delta) scale, dQ += dS K, dK += dS' Q.
template <class T>
void tile_backward(const AttentionInput<T>& in, const Tile& tile, const T* lse, const T* delta,
                   const T* d_o, T* d_q, T* d_k, T* d_v, T* p, T* d_s) {
  const int64_t H = in.head_dim, rows = tile.rows, width = tile.width;
  const int64_t q_stride = in.heads * H, kv_stride = in.kv_heads * H;
  const T* q = in.q + tile.q_at;
  const T *k = in.k + tile.kv_at, *v = in.v + tile.kv_at, *d_o_tile = d_o + tile.q_at;
  const T scale = static_cast<T>(in.scale);

  gemm<T>(false, true, rows, width, H, scale, q, q_stride, k, kv_stride, 0, p, width);
  probabilities(in, tile, lse, p);
  gemm<T>(true, false, width, H, rows, 1, p, width, d_o_tile, q_stride, 1, d_v + tile.kv_at,
          kv_stride);
  gemm<T>(false, true, rows, width, H, 1, d_o_tile, q_stride, v, kv_stride, 0, d_s, width);
  for (int64_t i = 0; i < rows; ++i) {
    const T row_delta = delta[(tile.q_row + i) * in.heads + tile.head];
    for (int64_t j = 0; j < width; ++j) {
      const int64_t at = i * width + j;
      d_s[at] = p[at] * (d_s[at] - row_delta) * scale;
    }
  }
  gemm<T>(false, false, rows, H, width, 1, d_s, width, k, kv_stride, 1, d_q + tile.q_at, q_stride);
  gemm<T>(true, false, width, H, rows, 1, d_s, width, q, q_stride, 1, d_k + tile.kv_at, kv_stride);
}

}  // namespace

template <class T>
void attention_block_backward(const AttentionInput<T>& in, const T* o, const T* lse, const T* d_o,
                              T* d_q, T* d_k, T* d_v) {
  const int64_t H = in.head_dim, group = in.heads / std::max(in.kv_heads, int64_t{1});
  const std::vector<T> delta = deltas(in.q_rows * in.heads, H, d_o, o);
  std::vector<T> p, d_s;
  for (int64_t s = 0; s < in.documents; ++s) {
    const int64_t q_length = in.q_length[s], kv_length = in.kv_length[s];
    for (int64_t first = 0; first < q_length; first += kAttentionTile) {
      const int64_t rows = std::min(kAttentionTile, q_length - first);
      const int64_t width = visible_rows(in.mask, first + rows - 1, q_length, kv_length);
      if (width == 0) continue;
      p.resize(static_cast<size_t>(rows * width));
      d_s.resize(p.size());
      const int64_t q_row = in.q_offset[s] + first;
      for (int64_t n = 0; n < in.heads; ++n) {
        const Tile tile{.rows = rows,
                        .width = width,
                        .first = first,
                        .q_row = q_row,
                        .q_at = (q_row * in.heads + n) * H,
                        .kv_at = (in.kv_offset[s] * in.kv_heads + n / group) * H,
                        .q_length = q_length,
                        .kv_length = kv_length,
                        .head = n};
        tile_backward(in, tile, lse, delta.data(), d_o, d_q, d_k, d_v, p.data(), d_s.data());
      }
    }
  }
}

template void attention_block_backward(const AttentionInput<float>&, const float*, const float*,
                                       const float*, float*, float*, float*);
template void attention_block_backward(const AttentionInput<double>&, const double*, const double*,
                                       const double*, double*, double*, double*);

}  // namespace verlcpp::cpu
