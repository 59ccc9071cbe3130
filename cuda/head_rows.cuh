#pragma once

#include <cuda_fp16.h>

#include "cuda/head_softmax.cuh"
#include "cuda/product_tiles.cuh"
#include "tensor/backend.h"

// What becomes of a tile of logits: its rows' softmax sums, and KeptLogits.

namespace verlcpp::cuda {

constexpr int kColumns = static_cast<int>(kKeptGroup);
static_assert(kColumns == ProductTile::kColumns);
constexpr float kFarBelow = -1e30f;  // stands in for logits beyond the vocabulary

/// What a cluster works on: a pair of row blocks, and the tiles of a part of the vocabulary.
struct HeadItem {
  int pair, part, first_tile, end_tile;
};

struct HeadWork {
  int64_t rows, vocab, first;
  TileOrder order;  // columns: parts of the vocabulary
  int depth_steps, tiles;
  double* stats;  // [parts][rows][4]
  float* shift;   // [rows][tiles], or null where no logits are kept
  const int32_t* labels;
  const float* temperature;

  __device__ HeadItem item(int number) const {
    const auto [pair, part] = order.item(number);
    return {pair, part, static_cast<int>(int64_t{tiles} * part / order.columns),
            static_cast<int>(int64_t{tiles} * (part + 1) / order.columns)};
  }
};

__device__ inline float quad_max(float x) {
  x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 1));
  return fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 2));
}

/// A row's softmax sums over the columns of this thread, from the largest seen so far: doubles,
/// since they add up the tiles of a whole vocabulary. In units of ln 2, as all in this file.
struct RowSums {
  float max = -INFINITY, label = -INFINITY;
  double sum = 0, weighted = 0;

  __device__ inline void merge(float other_max, float other_sum, float other_weighted) {
    const float to = fmaxf(max, other_max);
    const float down = max == -INFINITY ? 0.0f : max - to, other_down = other_max - to;
    const double scale = exp2_fast(down), other_scale = exp2_fast(other_down);
    weighted =
        scale * (weighted + sum * down) + other_scale * (other_weighted + other_sum * other_down);
    sum = scale * sum + other_scale * other_sum;
    max = to;
  }
};

struct TileRow {
  int64_t number;
  bool there;
  float scale;    // 1 / (temperature ln 2)
  int64_t label;  // in this part's columns, or -1
};

/// The tile's row `Half` (0: the upper eight of the warp's sixteen) of this thread: its sums join
/// `all`, and what is left in `sums` are z - largest.
template <int Half>
__device__ float reduce_row(float (&sums)[128], const TileRow& row, RowSums& all) {
  float largest = sums[2 * Half];
#pragma unroll
  for (int j = 0; j < 32; ++j) {
    largest = fmaxf(largest, fmaxf(sums[4 * j + 2 * Half], sums[4 * j + 2 * Half + 1]));
  }
  largest = quad_max(largest) * row.scale;
  float sum = 0, weighted = 0;
#pragma unroll
  for (int j = 0; j < 32; ++j) {
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      float& z = sums[4 * j + 2 * Half + e];
      z = fmaf(z, row.scale, -largest);
      const float p = exp2_fast(z);
      sum += p;
      weighted = fmaf(p, z, weighted);
    }
  }
  all.merge(largest, sum, weighted);
  return largest;
}

/// Of the label, if this thread holds it.
template <int Half>
__device__ void take_label(const float (&sums)[128], const TileRow& row, int column, float largest,
                           RowSums& all) {
  const int64_t at = row.label - column;  // in the tile
  const int lane = threadIdx.x % 4;
  if (at < 0 || at >= kColumns || at % 8 / 2 != lane) return;
#pragma unroll
  for (int j = 0; j < 32; ++j) {
    if (at / 8 != j) continue;
    all.label = (at % 2 == 0 ? sums[4 * j + 2 * Half] : sums[4 * j + 2 * Half + 1]) + largest;
  }
}

/// What reduce_row has left of both rows; `row`: the first of the group's 64.
__device__ inline void keep_tile(const float (&sums)[128], BoxWriter& writer,
                                 const CUtensorMap& kept, int column, int row) {
#pragma unroll
  for (int first = 0; first < 32; first += 8) {
    uint32_t upper[8], lower[8];
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      const float* z = sums + 4 * (first + j);
      upper[j] = word_of(__floats2half2_rn(z[0], z[1]));
      lower[j] = word_of(__floats2half2_rn(z[2], z[3]));
    }
    writer.write(kept, column + 8 * first, row, upper, lower);
  }
}

__device__ inline void keep_shift(const HeadWork& work, const TileRow& row, int tile,
                                  float largest) {
  if (threadIdx.x % 4 == 0 && row.there) work.shift[row.number * work.tiles + tile] = largest;
}

/// Columns beyond the vocabulary, which copies filled with zeros.
__device__ inline void cut_tail(float (&sums)[128], int64_t columns) {
#pragma unroll
  for (int j = 0; j < 32; ++j) {
    const int column = 8 * j + 2 * static_cast<int>(threadIdx.x % 4);
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      if (column + e < columns) continue;
      sums[4 * j + e] = sums[4 * j + 2 + e] = kFarBelow;
    }
  }
}

__device__ inline void write_sums(const HeadWork& work, const HeadItem& item, const TileRow& row,
                                  RowSums& mine) {
  for (int offset = 1; offset < 4; offset *= 2) {
    RowSums other;
    other.max = __shfl_xor_sync(0xffffffffu, mine.max, offset);
    other.label = __shfl_xor_sync(0xffffffffu, mine.label, offset);
    other.sum = __shfl_xor_sync(0xffffffffu, mine.sum, offset);
    other.weighted = __shfl_xor_sync(0xffffffffu, mine.weighted, offset);
    mine.sum += other.sum;  // both from the quad's largest
    mine.weighted += other.weighted;
    mine.label = fmaxf(mine.label, other.label);
  }
  if (threadIdx.x % 4 != 0 || !row.there) return;
  double* to = work.stats + (item.part * work.rows + row.number) * 4;
  to[0] = mine.max * kLn2;
  to[1] = mine.sum;
  to[2] = mine.weighted * kLn2;
  to[3] = mine.label * kLn2;
}

__device__ inline TileRow row_of(const HeadWork& work, int64_t number) {
  const bool there = number < work.rows;
  const float t = there ? work.temperature[number] : 1.0f;
  const int64_t label = there ? work.labels[number] - work.first : -1;
  return {number, there, kLog2e / safe_temperature(t), label < work.vocab ? label : -1};
}

}  // namespace verlcpp::cuda
