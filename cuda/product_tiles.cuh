#pragma once

#include <cudaTypedefs.h>

#include "cuda/check.h"
#include "cuda/device.cuh"
#include "cuda/hopper.cuh"

// Tiles of x w^T in registers, bfloat16 in, float32 out: what a kernel does with them is its own.
// Clusters of two thread blocks take two neighbouring blocks of rows and share the columns, of
// which each loads half for both. In a block one warp group copies stages of depth ahead, two
// multiply: 64 rows of the tile each.

namespace verlcpp::cuda {

struct ProductTile {
  static constexpr int kRows = 128, kColumns = 256, kDepth = 64, kStages = 4;
  static constexpr int kRowsOfCluster = 2 * kRows;
  static constexpr int kGroup = 128, kThreads = 3 * kGroup;  // of a warp group, of a block
  static constexpr uint32_t kStageBytes = (kRows + kColumns) * kDepth * sizeof(bf16);

  /// Shared memory.
  struct Stages {
    bf16 a[kStages][kRows * kDepth];
    bf16 b[kStages][kColumns * kDepth];
    uint64_t full[kStages], empty[kStages];
  };
};
using ProductStages = ProductTile::Stages;
/// Swizzled boxes begin at multiples of 1024.
constexpr size_t kProductSharedBytes = sizeof(ProductStages) + 1024;

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

/// By one thread of the copying group: all stages of the tile whose rows of x begin at `row` (of
/// this block) and whose rows of w at `column` (of both).
__device__ inline void copy_tile(ProductStages& stages, Turn& turn, const CUtensorMap& x,
                                 const CUtensorMap& w, int row, int column, int depth_steps,
                                 int rank) {
  constexpr int kHalf = ProductTile::kColumns / 2, kDepth = ProductTile::kDepth;
  for (int step = 0; step < depth_steps; ++step, turn.next()) {
    const int s = turn.stage;
    wait_for(&stages.empty[s], turn.parity ^ 1);
    arrive_expecting(&stages.full[s], ProductTile::kStageBytes);
    copy_box(stages.a[s], x, &stages.full[s], step * kDepth, row);
    copy_box_to(0b11, stages.b[s] + rank * kHalf * kDepth, w, &stages.full[s], step * kDepth,
                column + rank * kHalf);
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

inline PFN_cuTensorMapEncodeTiled_v12000 tensor_map_encoder() {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found;
  check(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, 12000,
                                         cudaEnableDefault, &found),
        "cuTensorMapEncodeTiled");
  expects(found == cudaDriverEntryPointSuccess, "the driver has no cuTensorMapEncodeTiled");
  return reinterpret_cast<PFN_cuTensorMapEncodeTiled_v12000>(function);
}

/// Boxes of 128 rows x 64 columns of a matrix of bfloat16.
inline CUtensorMap tensor_map(const void* data, int64_t rows, int64_t columns) {
  static const auto encode = tensor_map_encoder();
  CUtensorMap map;
  const cuuint64_t sizes[] = {static_cast<cuuint64_t>(columns), static_cast<cuuint64_t>(rows)};
  const cuuint64_t strides[] = {static_cast<cuuint64_t>(columns) * sizeof(bf16)};
  const cuuint32_t box[] = {ProductTile::kDepth, ProductTile::kRows}, steps[] = {1, 1};
  const CUresult status =
      encode(&map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2, const_cast<void*>(data), sizes, strides,
             box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
             CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  expects(status == CUDA_SUCCESS, "cuTensorMapEncodeTiled refuses a matrix");
  return map;
}

}  // namespace verlcpp::cuda
