#include "cuda/head_rows.cuh"
#include "cuda/kernels.h"

// Logits as sums in registers only: tiles of x w^T, each reduced to its rows' softmax sums as soon
// as it is there, and kept, if at all, as KeptLogits says. While one warp group reduces, the other
// can multiply on as long as both have stages.

namespace verlcpp::cuda {
namespace {

__device__ void copy_tiles(ProductStages& stages, const ClusterPlace& me, const HeadWork& work,
                           const CUtensorMap& x, const CUtensorMap& w) {
  Turn turn;
  for (int number = me.cluster; number < work.order.items(); number += me.clusters) {
    const HeadItem item = work.item(number);
    const int row = item.pair * ProductTile::kRowsOfCluster + me.rank * ProductTile::kRows;
    for (int tile = item.first_tile; tile < item.end_tile; ++tile) {
      const int column = tile * kColumns + me.rank * (kColumns / 2);
      copy_tile(stages, turn, x, w, row, column, work.depth_steps);
    }
  }
}

__device__ void multiply_and_reduce(ProductStages& stages, const ClusterPlace& me,
                                    const HeadWork& work, const CUtensorMap& kept) {
  const int group = static_cast<int>(threadIdx.x) / ProductTile::kGroup - 1;
  const int row_of_group = static_cast<int>(threadIdx.x) % ProductTile::kGroup / 32 * 16 +
                           static_cast<int>(threadIdx.x) % 32 / 4;
  BoxWriter writer(stages, group);
  Turn turn;
  float sums[128];
  for (int number = me.cluster; number < work.order.items(); number += me.clusters) {
    const HeadItem item = work.item(number);
    const int64_t first = int64_t{item.pair} * ProductTile::kRowsOfCluster +
                          me.rank * ProductTile::kRows + group * 64 + row_of_group;
    const TileRow upper = row_of(work, first), lower = row_of(work, first + 8);
    RowSums upper_sums, lower_sums;
    for (int tile = item.first_tile; tile < item.end_tile; ++tile) {
      multiply_tile(sums, stages, turn, work.depth_steps, group);
      const int column = tile * kColumns;
      if (column + kColumns > work.vocab) cut_tail(sums, work.vocab - column);
      const float upper_largest = reduce_row<0>(sums, upper, upper_sums);
      const float lower_largest = reduce_row<1>(sums, lower, lower_sums);
      take_label<0>(sums, upper, column, upper_largest, upper_sums);
      take_label<1>(sums, lower, column, lower_largest, lower_sums);
      if (work.shift == nullptr) continue;
      keep_tile(sums, writer, kept, column, static_cast<int>(first) - row_of_group);
      keep_shift(work, upper, tile, upper_largest);
      keep_shift(work, lower, tile, lower_largest);
    }
    write_sums(work, item, upper, upper_sums);
    write_sums(work, item, lower, lower_sums);
  }
  writer.finish();
}

__global__ void __cluster_dims__(2) __launch_bounds__(ProductTile::kThreads, 1)
    head_stats_kernel(const __grid_constant__ HeadWork work, const __grid_constant__ CUtensorMap x,
                      const __grid_constant__ CUtensorMap w,
                      const __grid_constant__ CUtensorMap kept) {
  run_tiles(
      [&](ProductStages& stages, const ClusterPlace& me) { copy_tiles(stages, me, work, x, w); },
      [&](ProductStages& stages, const ClusterPlace& me) {
        multiply_and_reduce(stages, me, work, kept);
      });
}

__device__ double warp_max(double value) {
  for (int offset = 16; offset > 0; offset /= 2) {
    value = fmax(value, __shfl_xor_sync(0xffffffffu, value, offset));
  }
  return value;
}

constexpr int kMergeWarps = 4;

/// A warp for each row, its lanes for the parts: a chunk of a head has few rows, whose time is the
/// latency of one.
__global__ void merge_parts_kernel(int64_t rows, int64_t parts, double* stats,
                                   const double* of_parts) {
  const int64_t r = int64_t{blockIdx.x} * kMergeWarps + threadIdx.y;
  if (r >= rows) return;
  const auto part = [&](int64_t p) { return of_parts + (p * rows + r) * 4; };
  RowStats all;
  for (int64_t p = threadIdx.x; p < parts; p += 32) {
    all.max = fmax(all.max, part(p)[0]);
    all.label = fmax(all.label, part(p)[3]);
  }
  all.max = warp_max(all.max);
  for (int64_t p = threadIdx.x; p < parts; p += 32) {
    if (part(p)[0] == -HUGE_VAL) continue;
    const double shift = part(p)[0] - all.max, scale = exp(shift);
    all.sum += scale * part(p)[1];
    all.weighted += scale * (part(p)[2] + part(p)[1] * shift);
  }
  all.label = warp_max(all.label);
  all.sum = warp_sum(all.sum);
  all.weighted = warp_sum(all.weighted);
  if (threadIdx.x != 0) return;
  stats[r * 4] = all.max;
  stats[r * 4 + 1] = all.sum;
  stats[r * 4 + 2] = all.weighted;
  stats[r * 4 + 3] = all.label;
}

/// How items are cut: rows that the second-level cache holds at a time, and so many parts of the
/// vocabulary that all clusters work for the same time, the fewest of those within 2 %.
struct Cut {
  int64_t pairs, tiles, pairs_at_a_time, parts = 1;

  explicit Cut(const HeadShape& shape)
      : pairs((shape.rows + ProductTile::kRowsOfCluster - 1) / ProductTile::kRowsOfCluster),
        tiles(kept_groups(shape.vocab)) {
    constexpr int64_t kCached = int64_t{32} << 20, kSomePairs = 16;
    const bool cached = shape.rows * shape.width * static_cast<int64_t>(sizeof(bf16)) <= kCached;
    pairs_at_a_time = cached ? pairs : std::min(pairs, kSomePairs);
    const int64_t most = std::min(tiles, std::max<int64_t>(1, kMostItems / pairs_at_a_time));
    for (int64_t n = 2; n <= most; ++n) {
      if (static_cast<double>(time(n)) < 0.98 * static_cast<double>(time(parts))) parts = n;
    }
  }

 private:
  static constexpr int64_t kMostItems = 4 * kClusters;
  int64_t time(int64_t n) const {
    return (pairs_at_a_time * n + kClusters - 1) / kClusters * ((tiles + n - 1) / n);
  }
};

}  // namespace

bool multiplies_head(const HeadShape& shape, const void* x, const void* w) {
  return head_in_registers(shape.vocab, shape.width) &&
         in_sixteens(shape.width * static_cast<int64_t>(sizeof(bf16)), {x, w});
}

int64_t head_parts(const HeadShape& shape) { return shape.rows == 0 ? 1 : Cut(shape).parts; }

void head_stats(cudaStream_t stream, const HeadShape& shape, double* stats, double* of_parts,
                void* kept, float* shift, const void* x, const void* w, const int32_t* labels,
                const float* temperature) {
  expects((kept == nullptr) == (shift == nullptr), "logits are kept with their shift");
  if (shape.rows == 0) return;
  const Cut cut(shape);
  const HeadWork work{.rows = shape.rows,
                      .vocab = shape.vocab,
                      .first = shape.first,
                      .order = {.pairs = static_cast<int>(cut.pairs),
                                .columns = static_cast<int>(cut.parts),
                                .pairs_at_a_time = static_cast<int>(cut.pairs_at_a_time)},
                      .depth_steps = static_cast<int>((shape.width + ProductTile::kDepth - 1) /
                                                      ProductTile::kDepth),
                      .tiles = static_cast<int>(cut.tiles),
                      .stats = cut.parts == 1 ? stats : of_parts,
                      .shift = shift,
                      .labels = labels,
                      .temperature = temperature};
  const CUtensorMap rows_of_x = operand_map(x, shape.rows, shape.width);
  launch_tiles("head_stats", stream, cut.pairs * cut.parts, head_stats_kernel, work, rows_of_x,
               operand_map(w, shape.vocab, shape.width),
               kept == nullptr ? rows_of_x  // not written
                               : result_map(kept, shape.rows, shape.vocab, shape.vocab));
  if (cut.parts == 1) return;
  merge_parts_kernel<<<grid_for(shape.rows, kMergeWarps), dim3(32, kMergeWarps), 0, stream>>>(
      shape.rows, cut.parts, stats, of_parts);
  check_launch("head_stats");
}

}  // namespace verlcpp::cuda
