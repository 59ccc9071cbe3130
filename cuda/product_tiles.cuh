#pragma once

#include <cudaTypedefs.h>

#include <algorithm>

#include "cuda/check.h"
#include "cuda/device.cuh"
#include "cuda/hopper.cuh"
#include "cuda/kernels.h"

// Tiles of x w^T in registers, bfloat16 in, float32 out: what a kernel does with them is its own.
// Clusters of two thread blocks take two neighbouring blocks of rows and share the columns, of
// which each loads half for both. In a block one warp group copies stages of depth ahead, two
// multiply: 64 rows of the tile each.

namespace verlcpp::cuda {

struct ProductTile {
  static constexpr int kRows = 128, kColumns = 256, kDepth = 64, kStages = 4;
  static constexpr int kBox = 64;  // rows and columns that are stored at a time
  static constexpr int kRowsOfCluster = 2 * kRows;
  static constexpr int kGroup = 128, kThreads = 3 * kGroup;  // of a warp group, of a block
  static constexpr uint32_t kStageBytes = (kRows + kColumns) * kDepth * sizeof(bf16);

  /// Shared memory.
  struct Stages {
    bf16 a[kStages][kRows * kDepth];
    bf16 b[kStages][kColumns * kDepth];
    uint16_t boxes[2][2][kBox * kBox];  // of each multiplying group, on their way out
    uint64_t full[kStages], empty[kStages];
  };
};
using ProductStages = ProductTile::Stages;
/// Swizzled boxes begin at multiples of 1024.
constexpr size_t kProductSharedBytes = sizeof(ProductStages) + 1024;
constexpr int64_t kClusters = kSms / 2;

/// Two results of 16 bits side by side.
template <class Pair>
__device__ uint32_t word_of(const Pair& pair) {
  static_assert(sizeof(Pair) == sizeof(uint32_t));
  return *reinterpret_cast<const uint32_t*>(&pair);
}

/// The place in the ring of stages, and how often it went round.
struct Turn {
  int stage = 0;
  uint32_t parity = 0;
  __device__ void next() {
    if (++stage == ProductTile::kStages) {
      stage = 0;
      parity ^= 1;
    }
  }
};

/// In the first lines of a kernel, by all threads.
__device__ inline ProductStages& product_stages(std::byte* shared) {
  auto& stages =
      *reinterpret_cast<ProductStages*>(shared + (1024 - shared_address(shared) % 1024) % 1024);
  if (threadIdx.x == 0) {
    for (int s = 0; s < ProductTile::kStages; ++s) {
      init_barrier(&stages.full[s], 1);
      init_barrier(&stages.empty[s], 4);
    }
    publish_barriers();
  }
  cluster_sync();
  return stages;
}

/// Where a block stands.
struct ClusterPlace {
  int rank, cluster, clusters;  // in its cluster; of how many clusters
};

/// The order of items, each a pair of row blocks and some columns: pairs at a time under way share
/// their rows in the second-level cache.
struct TileOrder {
  int pairs, columns, pairs_at_a_time;

  struct Item {
    int pair, column;
  };
  __device__ int items() const { return pairs * columns; }
  __device__ Item item(int number) const {
    const int group = number / (pairs_at_a_time * columns), first = group * pairs_at_a_time;
    const int size = min(pairs_at_a_time, pairs - first), of_group = number - first * columns;
    return {first + of_group % size, of_group / size};
  }
};

/// A kernel's body: one thread runs `copies`, the multiplying groups `multiplies`, both given the
/// stages and the block's place.
template <class Copies, class Multiplies>
__device__ void run_tiles(Copies copies, Multiplies multiplies) {
  extern __shared__ std::byte raw[];
  ProductStages& stages = product_stages(raw);
  const ClusterPlace me{.rank = static_cast<int>(rank_in_cluster()),
                        .cluster = static_cast<int>(blockIdx.x) / 2,
                        .clusters = static_cast<int>(gridDim.x) / 2};
  if (threadIdx.x < ProductTile::kGroup) {
    give_registers<40>();
    if (threadIdx.x == 0) copies(stages, me);
  } else {
    take_registers<232>();
    multiplies(stages, me);
  }
  cluster_sync();  // a block's memory takes its neighbour's copies and arrivals until the end
}

/// Launches such a kernel on as many clusters as there are, or items.
template <class Kernel, class... Arguments>
void launch_tiles(const char* name, cudaStream_t stream, int64_t items, Kernel kernel,
                  const Arguments&... arguments) {
  // Of this device: ranks of one process have several.
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             static_cast<int>(kProductSharedBytes)),
        name);
  const auto blocks = static_cast<unsigned>(2 * std::min(kClusters, items));
  kernel<<<blocks, ProductTile::kThreads, kProductSharedBytes, stream>>>(arguments...);
  check_launch(name);
}

/// By one thread of the copying group: all stages of the tile whose rows of x begin at `row` (of
/// this block). `column`: of w the rows that this block loads for both, half the tile's.
__device__ inline void copy_tile(ProductStages& stages, Turn& turn, const CUtensorMap& x,
                                 const CUtensorMap& w, int row, int column, int depth_steps) {
  const int rank = static_cast<int>(rank_in_cluster());
  constexpr int kHalf = ProductTile::kColumns / 2, kDepth = ProductTile::kDepth;
  for (int step = 0; step < depth_steps; ++step, turn.next()) {
    const int s = turn.stage;
    wait_for(&stages.empty[s], turn.parity ^ 1);
    arrive_expecting(&stages.full[s], ProductTile::kStageBytes);
    copy_box(stages.a[s], x, &stages.full[s], step * kDepth, row);
    copy_box_to(0b11, stages.b[s] + rank * kHalf * kDepth, w, &stages.full[s], step * kDepth,
                column);
  }
}

/// A stage is empty when all four multiplying groups of the cluster have read it.
__device__ inline void release(ProductStages& stages, int stage) {
  if (threadIdx.x % ProductTile::kGroup >= 2) return;
  arrive_at(&stages.empty[stage], threadIdx.x % ProductTile::kGroup);
}

/// One tile's sums of this group: 64 rows.
__device__ inline void multiply_tile(float (&sums)[128], ProductStages& stages, Turn& turn,
                                     int depth_steps, int group) {
  int last = 0;
  for (int step = 0; step < depth_steps; ++step, turn.next()) {
    const int s = turn.stage;
    wait_for(&stages.full[s], turn.parity);
    const bf16* a = stages.a[s] + group * 64 * ProductTile::kDepth;
    begin_products();
#pragma unroll
    for (int k = 0; k < ProductTile::kDepth; k += 16) {
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

/// Stores results of 16 bits, 64 rows x 64 columns of a group at a time, by way of shared memory,
/// from where they travel while the group multiplies on.
class BoxWriter {
 public:
  __device__ BoxWriter(ProductStages& stages, int group)
      : boxes_(&stages.boxes[group][0][0]), group_(group) {
    const int t = static_cast<int>(threadIdx.x) % 32, matrix = t / 8;
    const int warp = static_cast<int>(threadIdx.x) % ProductTile::kGroup / 32;
    row_ = 16 * warp + 8 * (matrix & 1) + t % 8;
    chunk_ = matrix / 2;
  }

  /// upper[j], lower[j]: columns 8 j + 2 (t % 4) (+ 1) of rows t / 4 and t / 4 + 8 of the
  /// warp's 16. `row` and `column`: where the box begins.
  __device__ void write(const CUtensorMap& to, int column, int row, const uint32_t (&upper)[8],
                        const uint32_t (&lower)[8]) {
    constexpr int kBoxElements = ProductTile::kBox * ProductTile::kBox;
    uint16_t* box = boxes_ + (turn_ ? kBoxElements : 0);
    turn_ = !turn_;
    if (issues()) wait_for_store_reads<1>();
    group_sync(1 + group_);
    // Rows of 128 bytes, their eighths swizzled as the copy expects them.
#pragma unroll
    for (int j = 0; j < 8; j += 2) {
      uint16_t* place = box + row_ * ProductTile::kBox + ((j + chunk_) ^ (row_ % 8)) * 8;
      store_matrices(place, upper[j], lower[j], upper[j + 1], lower[j + 1]);
    }
    publish_to_copies();
    group_sync(1 + group_);
    if (!issues()) return;
    store_box(to, box, column, row);
    commit_stores();
  }

  /// Before the block ends.
  __device__ void finish() const {
    if (issues()) wait_for_stores();
  }

 private:
  __device__ bool issues() const { return threadIdx.x % ProductTile::kGroup == 0; }

  uint16_t* boxes_;
  int group_, row_, chunk_;
  bool turn_ = false;
};

inline PFN_cuTensorMapEncodeTiled_v12000 tensor_map_encoder() {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found;
  check(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, 12000,
                                         cudaEnableDefault, &found),
        "cuTensorMapEncodeTiled");
  expects(found == cudaDriverEntryPointSuccess, "the driver has no cuTensorMapEncodeTiled");
  return reinterpret_cast<PFN_cuTensorMapEncodeTiled_v12000>(function);
}

static_assert(ProductTile::kBox == ProductTile::kDepth, "one width of boxes serves both ways");

/// Boxes of `box_rows` x 64 columns of a matrix of 16-bit elements whose rows are `pitch` elements
/// apart.
inline CUtensorMap tensor_map(const void* data, int64_t rows, int64_t columns, int64_t pitch,
                              int box_rows) {
  static const auto encode = tensor_map_encoder();
  CUtensorMap map;
  const cuuint64_t sizes[] = {static_cast<cuuint64_t>(columns), static_cast<cuuint64_t>(rows)};
  const cuuint64_t strides[] = {static_cast<cuuint64_t>(pitch) * sizeof(bf16)};
  const cuuint32_t box[] = {ProductTile::kDepth, static_cast<cuuint32_t>(box_rows)};
  const cuuint32_t steps[] = {1, 1};
  const CUresult status =
      encode(&map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2, const_cast<void*>(data), sizes, strides,
             box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
             CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  expects(status == CUDA_SUCCESS, "cuTensorMapEncodeTiled refuses a matrix");
  return map;
}
/// Of an operand, rows end to end.
inline CUtensorMap operand_map(const void* data, int64_t rows, int64_t columns) {
  return tensor_map(data, rows, columns, columns, ProductTile::kRows);
}
/// Of what BoxWriter stores: 16 bits an element, whatever they stand for.
inline CUtensorMap result_map(void* data, int64_t rows, int64_t columns, int64_t pitch) {
  return tensor_map(data, rows, columns, pitch, ProductTile::kBox);
}

}  // namespace verlcpp::cuda
