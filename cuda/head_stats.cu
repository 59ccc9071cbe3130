#include <cudaTypedefs.h>
#include <cuda_fp16.h>

#include "cuda/check.h"
#include "cuda/device.cuh"
#include "cuda/hopper.cuh"
#include "cuda/kernels.h"

// Logits as sums in registers only: tiles of 128 x 256 of x w^T, each reduced to its rows' softmax
// sums as soon as it is there, and kept, if at all, as KeptLogits says. One warp group copies tiles
// of both operands ahead, two multiply; while one of these reduces, the other keeps multiplying.

namespace verlcpp::cuda {
namespace {

constexpr int kRows = 128, kDepth = 64, kStages = 4;
constexpr int kColumns = static_cast<int>(kKeptGroup);
constexpr int kRowsOfPair = 2 * kRows;  // of a cluster: two blocks share the columns they load
constexpr int kGroup = 128, kThreads = 3 * kGroup;  // one warp group copies, two multiply
constexpr float kLog2e = 1.44269504f;
constexpr double kLn2 = 0.693147180559945309;
constexpr float kFarBelow = -1e30f;  // stands in for logits beyond the vocabulary

struct Stages {
  bf16 a[kStages][kRows * kDepth];
  bf16 b[kStages][kColumns * kDepth];
  uint64_t full[kStages], empty[kStages];
};
constexpr uint32_t kStageBytes = (kRows + kColumns) * kDepth * sizeof(bf16);
constexpr size_t kSharedBytes = sizeof(Stages) + 1024;  // swizzled boxes begin at multiples of 1024

/// What a cluster works on: a pair of row blocks, and the tiles of a part of the vocabulary. Items
/// under way at a time share rows that the second-level cache holds.
struct Item {
  int pair, part, first_tile, end_tile;
};

struct Work {
  int64_t rows, vocab, first;
  int depth_steps, pairs, parts, tiles, pairs_at_a_time;
  double* stats;  // [parts][rows][4]
  __half* kept;   // [rows][vocab] or null
  float* shift;   // [rows][tiles]
  const int32_t* labels;
  const float* temperature;

  __device__ int items() const { return pairs * parts; }
  __device__ Item item(int number) const {
    const int group = number / (pairs_at_a_time * parts), first = group * pairs_at_a_time;
    const int size = min(pairs_at_a_time, pairs - first), of_group = number - first * parts;
    const int part = of_group / size;
    return {first + of_group % size, part, static_cast<int>(int64_t{tiles} * part / parts),
            static_cast<int>(int64_t{tiles} * (part + 1) / parts)};
  }
};

/// The place in the ring of stages, and how often it went round.
struct Turn {
  int stage = 0;
  uint32_t parity = 0;
  __device__ void next() {
    if (++stage == kStages) {
      stage = 0;
      parity ^= 1;
    }
  }
};

// One thread. Every block loads its own rows, and half of the columns for both of the cluster.
__device__ void copy_stages(Stages& stages, const Work& work, const CUtensorMap& x,
                            const CUtensorMap& w, int cluster, int clusters, int rank) {
  Turn turn;
  for (int number = cluster; number < work.items(); number += clusters) {
    const Item item = work.item(number);
    const int row = item.pair * kRowsOfPair + rank * kRows;
    for (int tile = item.first_tile; tile < item.end_tile; ++tile) {
      const int column = tile * kColumns + rank * (kColumns / 2);
      for (int step = 0; step < work.depth_steps; ++step, turn.next()) {
        const int s = turn.stage;
        wait_for(&stages.empty[s], turn.parity ^ 1);
        arrive_expecting(&stages.full[s], kStageBytes);
        copy_box(stages.a[s], x, &stages.full[s], step * kDepth, row);
        copy_box_to(0b11, stages.b[s] + rank * (kColumns / 2) * kDepth, w, &stages.full[s],
                    step * kDepth, column);
      }
    }
  }
}

/// A stage is empty when all four multiplying groups of the cluster have read it.
__device__ void release(Stages& stages, int stage) {
  if (threadIdx.x % kGroup >= 2) return;
  arrive_at(&stages.empty[stage], threadIdx.x % kGroup);
}

/// One tile's sums of this group: 64 rows.
__device__ void multiply_tile(float (&sums)[128], Stages& stages, Turn& turn, int depth_steps,
                              int group) {
  int last = 0;
  for (int step = 0; step < depth_steps; ++step, turn.next()) {
    const int s = turn.stage;
    wait_for(&stages.full[s], turn.parity);
    const bf16* a = stages.a[s] + group * 64 * kDepth;
    begin_products();
#pragma unroll
    for (int k = 0; k < kDepth; k += 16) {
      multiply_64x256x16(sums, operand(a + k), operand(stages.b[s] + k), step + k > 0);
    }
    commit_products();
    if (step > 0) {
      wait_for_products<1>();
      release(stages, last);
    }
    last = s;
  }
  wait_for_products<0>();
  release(stages, last);
}

__device__ inline float quad_max(float x) {
  x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 1));
  return fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 2));
}

/// One instruction, where exp2f also takes care of results below 2^-126.
__device__ inline float exp2_of(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

/// A row's softmax sums over the columns of this thread, from the largest seen so far: doubles,
/// since they add up the tiles of a whole vocabulary. In units of ln 2, as all in this file.
struct RowSums {
  float max = -INFINITY, label = -INFINITY;
  double sum = 0, weighted = 0;

  __device__ void merge(float other_max, float other_sum, float other_weighted) {
    const float to = fmaxf(max, other_max);
    const float down = max == -INFINITY ? 0.0f : max - to, other_down = other_max - to;
    const double scale = exp2_of(down), other_scale = exp2_of(other_down);
    weighted =
        scale * (weighted + sum * down) + other_scale * (other_weighted + other_sum * other_down);
    sum = scale * sum + other_scale * other_sum;
    max = to;
  }
};

struct Row {
  int64_t number;
  bool there;
  float scale;    // 1 / (temperature ln 2)
  int64_t label;  // in this part's columns
};

/// 4 x 4 words of a quad of threads: word i of thread l becomes word l of thread i.
__device__ inline void transpose(uint32_t (&v)[4], int lane) {
  const bool odd = lane & 1, upper = lane & 2;
  const uint32_t a = __shfl_xor_sync(0xffffffffu, odd ? v[0] : v[1], 1);
  const uint32_t b = __shfl_xor_sync(0xffffffffu, odd ? v[2] : v[3], 1);
  (odd ? v[0] : v[1]) = a;
  (odd ? v[2] : v[3]) = b;
  const uint32_t c = __shfl_xor_sync(0xffffffffu, upper ? v[0] : v[2], 2);
  const uint32_t d = __shfl_xor_sync(0xffffffffu, upper ? v[1] : v[3], 2);
  (upper ? v[0] : v[2]) = c;
  (upper ? v[1] : v[3]) = d;
}

/// The tile's row `Half` (0: the upper eight of the warp's sixteen) of this thread: its sums join
/// `all`, and what is left in `sums` are z - largest.
template <int Half>
__device__ float reduce_row(float (&sums)[128], const Row& row, RowSums& all) {
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
      const float p = exp2_of(z);
      sum += p;
      weighted = fmaf(p, z, weighted);
    }
  }
  all.merge(largest, sum, weighted);
  return largest;
}

/// Of the label, if this thread holds it.
template <int Half>
__device__ void take_label(const float (&sums)[128], const Row& row, int column, float largest,
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

template <int Half>
__device__ void keep_row(const float (&sums)[128], const Work& work, const Row& row, int tile,
                         float largest) {
  const int lane = threadIdx.x % 4;
  __half* to = work.kept + row.number * work.vocab + tile * kColumns + 8 * lane;
#pragma unroll
  for (int j = 0; j < 32; j += 4) {
    uint32_t words[4];
#pragma unroll
    for (int q = 0; q < 4; ++q) {
      const __half2 pair =
          __floats2half2_rn(sums[4 * (j + q) + 2 * Half], sums[4 * (j + q) + 2 * Half + 1]);
      words[q] = *reinterpret_cast<const uint32_t*>(&pair);
    }
    transpose(words, lane);
    const int64_t column = int64_t{tile} * kColumns + 8 * (j + lane);
    if (row.there && column < work.vocab) {
      *reinterpret_cast<uint4*>(to + 8 * j) = {words[0], words[1], words[2], words[3]};
    }
  }
  if (lane == 0 && row.there) work.shift[row.number * work.tiles + tile] = largest;
}

/// Columns beyond the vocabulary, which copies filled with zeros.
__device__ void cut_tail(float (&sums)[128], int64_t columns) {
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

__device__ void write_sums(const Work& work, const Item& item, const Row& row, RowSums& mine) {
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

__device__ Row row_of(const Work& work, int64_t number) {
  const bool there = number < work.rows;
  const float t = there ? work.temperature[number] : 1.0f;
  return {number, there, kLog2e / (t > 0.0f ? t : 1e-8f),
          there ? work.labels[number] - work.first : int64_t{-1}};
}

__device__ void multiply_and_reduce(Stages& stages, const Work& work, int cluster, int clusters,
                                    int rank) {
  const int group = static_cast<int>(threadIdx.x) / kGroup - 1;
  const int row_of_block = group * 64 + static_cast<int>(threadIdx.x) % kGroup / 32 * 16 +
                           static_cast<int>(threadIdx.x) % 32 / 4;
  Turn turn;
  float sums[128];
  for (int number = cluster; number < work.items(); number += clusters) {
    const Item item = work.item(number);
    const int64_t first = int64_t{item.pair} * kRowsOfPair + rank * kRows + row_of_block;
    const Row upper = row_of(work, first), lower = row_of(work, first + 8);
    RowSums upper_sums, lower_sums;
    for (int tile = item.first_tile; tile < item.end_tile; ++tile) {
      multiply_tile(sums, stages, turn, work.depth_steps, group);
      const int column = tile * kColumns;
      if (column + kColumns > work.vocab) cut_tail(sums, work.vocab - column);
      const float upper_largest = reduce_row<0>(sums, upper, upper_sums);
      const float lower_largest = reduce_row<1>(sums, lower, lower_sums);
      take_label<0>(sums, upper, column, upper_largest, upper_sums);
      take_label<1>(sums, lower, column, lower_largest, lower_sums);
      if (work.kept == nullptr) continue;
      keep_row<0>(sums, work, upper, tile, upper_largest);
      keep_row<1>(sums, work, lower, tile, lower_largest);
    }
    write_sums(work, item, upper, upper_sums);
    write_sums(work, item, lower, lower_sums);
  }
}

__global__ void __cluster_dims__(2) __launch_bounds__(kThreads, 1)
    head_stats_kernel(const __grid_constant__ Work work, const __grid_constant__ CUtensorMap x,
                      const __grid_constant__ CUtensorMap w) {
  extern __shared__ std::byte raw[];
  auto& stages = *reinterpret_cast<Stages*>(raw + (1024 - shared_address(raw) % 1024) % 1024);
  if (threadIdx.x == 0) {
    for (int s = 0; s < kStages; ++s) {
      init_barrier(&stages.full[s], 1);
      init_barrier(&stages.empty[s], 4);
    }
    publish_barriers();
  }
  cluster_sync();
  const int rank = static_cast<int>(rank_in_cluster());
  const int cluster = static_cast<int>(blockIdx.x) / 2, clusters = static_cast<int>(gridDim.x) / 2;
  if (threadIdx.x < kGroup) {
    give_registers<40>();
    if (threadIdx.x == 0) copy_stages(stages, work, x, w, cluster, clusters, rank);
  } else {
    take_registers<232>();
    multiply_and_reduce(stages, work, cluster, clusters, rank);
  }
  cluster_sync();  // a block's memory takes its neighbour's copies and arrivals until the end
}

__global__ void merge_parts_kernel(int64_t rows, int64_t parts, double* stats,
                                   const double* of_parts) {
  const int64_t r = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (r >= rows) return;
  double max = -HUGE_VAL, label = -HUGE_VAL, sum = 0, weighted = 0;
  for (int64_t p = 0; p < parts; ++p) {
    max = fmax(max, of_parts[(p * rows + r) * 4]);
    label = fmax(label, of_parts[(p * rows + r) * 4 + 3]);
  }
  for (int64_t p = 0; p < parts; ++p) {
    const double* s = of_parts + (p * rows + r) * 4;
    const double shift = s[0] - max, scale = exp(shift);
    sum += scale * s[1];
    weighted += scale * (s[2] + s[1] * shift);
  }
  stats[r * 4] = max;
  stats[r * 4 + 1] = sum;
  stats[r * 4 + 2] = weighted;
  stats[r * 4 + 3] = label;
}

PFN_cuTensorMapEncodeTiled_v12000 tensor_map_encoder() {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found;
  check(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, 12000,
                                         cudaEnableDefault, &found),
        "cuTensorMapEncodeTiled");
  expects(found == cudaDriverEntryPointSuccess, "the driver has no cuTensorMapEncodeTiled");
  return reinterpret_cast<PFN_cuTensorMapEncodeTiled_v12000>(function);
}

/// Boxes of 128 rows x 64 columns of a matrix of bfloat16.
CUtensorMap tensor_map(const void* data, int64_t rows, int64_t columns) {
  static const auto encode = tensor_map_encoder();
  CUtensorMap map;
  const cuuint64_t sizes[] = {static_cast<cuuint64_t>(columns), static_cast<cuuint64_t>(rows)};
  const cuuint64_t strides[] = {static_cast<cuuint64_t>(columns) * sizeof(bf16)};
  const cuuint32_t box[] = {kDepth, kRows}, steps[] = {1, 1};
  const CUresult status =
      encode(&map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2, const_cast<void*>(data), sizes, strides,
             box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
             CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  expects(status == CUDA_SUCCESS, "cuTensorMapEncodeTiled refuses a matrix");
  return map;
}

constexpr int64_t kClusters = kSms / 2;

/// How items are cut: rows that the second-level cache holds at a time, and so many parts of the
/// vocabulary that all clusters work for the same time, the fewest of those within 2 %.
struct Cut {
  int64_t pairs, tiles, pairs_at_a_time, parts = 1;

  explicit Cut(const HeadShape& shape)
      : pairs((shape.rows + kRowsOfPair - 1) / kRowsOfPair), tiles(kept_groups(shape.vocab)) {
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
  return shape.vocab % 8 == 0 &&
         in_sixteens(shape.width * static_cast<int64_t>(sizeof(bf16)), {x, w});
}

int64_t head_parts(const HeadShape& shape) { return shape.rows == 0 ? 1 : Cut(shape).parts; }

void head_stats(cudaStream_t stream, const HeadShape& shape, double* stats, double* of_parts,
                void* kept, float* shift, const void* x, const void* w, const int32_t* labels,
                const float* temperature) {
  if (shape.rows == 0) return;
  const Cut cut(shape);
  const Work work{.rows = shape.rows,
                  .vocab = shape.vocab,
                  .first = shape.first,
                  .depth_steps = static_cast<int>((shape.width + kDepth - 1) / kDepth),
                  .pairs = static_cast<int>(cut.pairs),
                  .parts = static_cast<int>(cut.parts),
                  .tiles = static_cast<int>(cut.tiles),
                  .pairs_at_a_time = static_cast<int>(cut.pairs_at_a_time),
                  .stats = cut.parts == 1 ? stats : of_parts,
                  .kept = static_cast<__half*>(kept),
                  .shift = shift,
                  .labels = labels,
                  .temperature = temperature};
  // Once for every device of the process would do; it costs less than a launch.
  check(cudaFuncSetAttribute(head_stats_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             static_cast<int>(kSharedBytes)),
        "shared memory of head_stats");
  const auto blocks = static_cast<unsigned>(2 * std::min(kClusters, cut.pairs * cut.parts));
  head_stats_kernel<<<blocks, kThreads, kSharedBytes, stream>>>(
      work, tensor_map(x, shape.rows, shape.width), tensor_map(w, shape.vocab, shape.width));
  check_launch("head_stats");
  if (cut.parts == 1) return;
  merge_parts_kernel<<<grid_for(shape.rows, 128), 128, 0, stream>>>(shape.rows, cut.parts, stats,
                                                                    of_parts);
  check_launch("head_stats");
}

}  // namespace verlcpp::cuda
