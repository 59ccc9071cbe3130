#include <algorithm>

#include "cuda/kernels.h"
#include "cuda/product_tiles.cuh"
#include "tensor/backend.h"

// silu(x Wg^T) * (x Wu^T): the products of gate and up meet in the registers of one thread, so that
// memory sees their product alone, or all three where backward needs them.

namespace verlcpp::cuda {
namespace {

constexpr int kGateColumns = ProductTile::kColumns / 2;  // columns of a tile: of gate, then of up

struct GateUpWork {
  int64_t rows, ffn;
  int depth_steps, pairs, tiles, pairs_at_a_time;

  __device__ int items() const { return pairs * tiles; }
  /// Pairs of row blocks under way at a time share the columns and stay in the second-level cache.
  __device__ void item(int number, int& pair, int& tile) const {
    const int group = number / (pairs_at_a_time * tiles), first = group * pairs_at_a_time;
    const int size = min(pairs_at_a_time, pairs - first), of_group = number - first * tiles;
    tile = of_group / size;
    pair = first + of_group % size;
  }
};

__device__ void copy_tiles(ProductStages& stages, const GateUpWork& work, const CUtensorMap& x,
                           const CUtensorMap& w, int cluster, int clusters, int rank) {
  Turn turn;
  for (int number = cluster; number < work.items(); number += clusters) {
    int pair, tile;
    work.item(number, pair, tile);
    const int row = pair * ProductTile::kRowsOfCluster + rank * ProductTile::kRows;
    // One block loads the gate's columns for both, the other those of up.
    const int column = tile * kGateColumns + (rank == 0 ? 0 : static_cast<int>(work.ffn));
    copy_tile(stages, turn, x, w, row, column, work.depth_steps, rank);
  }
}

__device__ uint32_t word(__nv_bfloat162 pair) { return *reinterpret_cast<uint32_t*>(&pair); }

/// Where results go: their product, and where they are kept gate and up.
struct GateUpResults {
  CUtensorMap out, gate, up;
};

/// This thread's pairs of columns 8 (first + j) + 2 (t % 4) of a box, in the upper (Half 0) or the
/// lower row.
template <int Half>
__device__ void box_words(const float (&sums)[128], int first, uint32_t (&gate)[8],
                          uint32_t (&up)[8], uint32_t (&product)[8]) {
#pragma unroll
  for (int j = 0; j < 8; ++j) {
    const int at = 4 * (first + j) + 2 * Half;
    const __nv_bfloat162 g = __floats2bfloat162_rn(sums[at], sums[at + 1]);
    const __nv_bfloat162 u = __floats2bfloat162_rn(sums[64 + at], sums[64 + at + 1]);
    const float2 gf = __bfloat1622float2(g), uf = __bfloat1622float2(u);
    product[j] = word(
        __floats2bfloat162_rn(gf.x * fast_sigmoid(gf.x) * uf.x, gf.y * fast_sigmoid(gf.y) * uf.y));
    gate[j] = word(g);
    up[j] = word(u);
  }
}

template <bool Keeps>
__device__ void finish_tile(const float (&sums)[128], BoxWriter& writer,
                            const GateUpResults& results, int column, int row) {
#pragma unroll
  for (int first = 0; first < 16; first += 8) {
    uint32_t gate[2][8], up[2][8], product[2][8];
    box_words<0>(sums, first, gate[0], up[0], product[0]);
    box_words<1>(sums, first, gate[1], up[1], product[1]);
    const int to = column + 8 * first;
    writer.write(results.out, to, row, product[0], product[1]);
    if constexpr (Keeps) {
      writer.write(results.gate, to, row, gate[0], gate[1]);
      writer.write(results.up, to, row, up[0], up[1]);
    }
  }
}

template <bool Keeps>
__device__ void multiply_tiles(ProductStages& stages, const GateUpWork& work,
                               const GateUpResults& results, int cluster, int clusters, int rank) {
  const int group = static_cast<int>(threadIdx.x) / ProductTile::kGroup - 1;
  BoxWriter writer(stages, group);
  Turn turn;
  float sums[128];
  for (int number = cluster; number < work.items(); number += clusters) {
    int pair, tile;
    work.item(number, pair, tile);
    multiply_tile(sums, stages, turn, work.depth_steps, group);
    const int row = pair * ProductTile::kRowsOfCluster + rank * ProductTile::kRows + group * 64;
    finish_tile<Keeps>(sums, writer, results, tile * kGateColumns, row);
  }
  writer.finish();
}

template <bool Keeps>
__global__ void __cluster_dims__(2) __launch_bounds__(ProductTile::kThreads, 1)
    gate_up_kernel(const __grid_constant__ GateUpWork work,
                   const __grid_constant__ GateUpResults results,
                   const __grid_constant__ CUtensorMap x, const __grid_constant__ CUtensorMap w) {
  extern __shared__ std::byte raw[];
  ProductStages& stages = product_stages(raw);
  const int rank = static_cast<int>(rank_in_cluster());
  const int cluster = static_cast<int>(blockIdx.x) / 2, clusters = static_cast<int>(gridDim.x) / 2;
  if (threadIdx.x < ProductTile::kGroup) {
    give_registers<40>();
    if (threadIdx.x == 0) copy_tiles(stages, work, x, w, cluster, clusters, rank);
  } else {
    take_registers<232>();
    multiply_tiles<Keeps>(stages, work, results, cluster, clusters, rank);
  }
  cluster_sync();  // a block's memory takes its neighbour's copies and arrivals until the end
}

}  // namespace

bool multiplies_gate_up(const GateUpShape& shape, std::initializer_list<const void*> places) {
  return gates_in_registers(shape.rows, shape.ffn, shape.width) &&
         in_sixteens(shape.width * static_cast<int64_t>(sizeof(bf16)), places);
}

void gate_up(cudaStream_t stream, const GateUpShape& shape, void* out, void* gate_up, const void* x,
             const void* w) {
  const auto [rows, ffn, width] = shape;
  if (rows * ffn == 0) return;
  constexpr int64_t kPairsAtATime = 8;
  const int64_t pairs = (rows + ProductTile::kRowsOfCluster - 1) / ProductTile::kRowsOfCluster;
  const int64_t tiles = (ffn + kGateColumns - 1) / kGateColumns;
  const GateUpWork work{
      .rows = rows,
      .ffn = ffn,
      .depth_steps = static_cast<int>((width + ProductTile::kDepth - 1) / ProductTile::kDepth),
      .pairs = static_cast<int>(pairs),
      .tiles = static_cast<int>(tiles),
      .pairs_at_a_time = static_cast<int>(std::min(pairs, kPairsAtATime))};
  auto* gates = static_cast<bf16*>(gate_up == nullptr ? out : gate_up);  // not written without
  const int64_t pitch = gate_up == nullptr ? ffn : 2 * ffn;
  const GateUpResults results{.out = result_map(out, rows, ffn, ffn),
                              .gate = result_map(gates, rows, ffn, pitch),
                              .up = result_map(gates + (pitch - ffn), rows, ffn, pitch)};
  const auto kernel = gate_up == nullptr ? gate_up_kernel<false> : gate_up_kernel<true>;
  // Of this device: ranks of one process have several.
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             static_cast<int>(kProductSharedBytes)),
        "shared memory of gate_up");
  const auto blocks = static_cast<unsigned>(2 * std::min<int64_t>(kSms / 2, pairs * tiles));
  kernel<<<blocks, ProductTile::kThreads, kProductSharedBytes, stream>>>(
      work, results, operand_map(x, rows, width), operand_map(w, 2 * ffn, width));
  check_launch("gate_up");
}

}  // namespace verlcpp::cuda
