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
  TileOrder order;
  int ffn, depth_steps;
};

__device__ void copy_tiles(ProductStages& stages, const ClusterPlace& me, const GateUpWork& work,
                           const CUtensorMap& x, const CUtensorMap& w) {
  Turn turn;
  for (int number = me.cluster; number < work.order.items(); number += me.clusters) {
    const TileOrder::Item item = work.order.item(number);
    const int row = item.pair * ProductTile::kRowsOfCluster + me.rank * ProductTile::kRows;
    // One block loads the gate's columns for both, the other those of up.
    const int column = item.column * kGateColumns + (me.rank == 0 ? 0 : work.ffn);
    copy_tile(stages, turn, x, w, row, column, work.depth_steps);
  }
}

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
    product[j] = word_of(
        __floats2bfloat162_rn(gf.x * fast_sigmoid(gf.x) * uf.x, gf.y * fast_sigmoid(gf.y) * uf.y));
    gate[j] = word_of(g);
    up[j] = word_of(u);
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
__device__ void multiply_tiles(ProductStages& stages, const ClusterPlace& me,
                               const GateUpWork& work, const GateUpResults& results) {
  const int group = static_cast<int>(threadIdx.x) / ProductTile::kGroup - 1;
  BoxWriter writer(stages, group);
  Turn turn;
  float sums[128];
  for (int number = me.cluster; number < work.order.items(); number += me.clusters) {
    const TileOrder::Item item = work.order.item(number);
    multiply_tile(sums, stages, turn, work.depth_steps, group);
    const int row =
        item.pair * ProductTile::kRowsOfCluster + me.rank * ProductTile::kRows + group * 64;
    finish_tile<Keeps>(sums, writer, results, item.column * kGateColumns, row);
  }
  writer.finish();
}

template <bool Keeps>
__global__ void __cluster_dims__(2) __launch_bounds__(ProductTile::kThreads, 1)
    gate_up_kernel(const __grid_constant__ GateUpWork work,
                   const __grid_constant__ GateUpResults results,
                   const __grid_constant__ CUtensorMap x, const __grid_constant__ CUtensorMap w) {
  run_tiles(
      [&](ProductStages& stages, const ClusterPlace& me) { copy_tiles(stages, me, work, x, w); },
      [&](ProductStages& stages, const ClusterPlace& me) {
        multiply_tiles<Keeps>(stages, me, work, results);
      });
}

}  // namespace

bool multiplies_gate_up(const GateUpShape& shape, std::initializer_list<const void*> places) {
  return gates_in_registers(shape.rows, shape.ffn, shape.width) &&
         in_sixteens(shape.width * static_cast<int64_t>(sizeof(bf16)), places);
}

void gate_up(cudaStream_t stream, const GateUpShape& shape, void* out, void* gate_up, const void* x,
             const void* w) {
  const auto [rows, ffn, width] = shape;
  constexpr int64_t kPairsAtATime = 8;
  const int64_t pairs = (rows + ProductTile::kRowsOfCluster - 1) / ProductTile::kRowsOfCluster;
  const int64_t tiles = (ffn + kGateColumns - 1) / kGateColumns;
  const GateUpWork work{
      .order = {.pairs = static_cast<int>(pairs),
                .columns = static_cast<int>(tiles),
                .pairs_at_a_time = static_cast<int>(std::min(pairs, kPairsAtATime))},
      .ffn = static_cast<int>(ffn),
      .depth_steps = static_cast<int>((width + ProductTile::kDepth - 1) / ProductTile::kDepth)};
  auto* gates = static_cast<bf16*>(gate_up == nullptr ? out : gate_up);  // not written without
  const int64_t pitch = gate_up == nullptr ? ffn : 2 * ffn;
  const GateUpResults results{.out = result_map(out, rows, ffn, ffn),
                              .gate = result_map(gates, rows, ffn, pitch),
                              .up = result_map(gates + (pitch - ffn), rows, ffn, pitch)};
  launch_tiles("gate_up", stream, pairs * tiles,
               gate_up == nullptr ? gate_up_kernel<false> : gate_up_kernel<true>, work, results,
               operand_map(x, rows, width), operand_map(w, 2 * ffn, width));
}

}  // namespace verlcpp::cuda
