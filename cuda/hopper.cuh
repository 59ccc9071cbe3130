#pragma once

#include <cuda.h>
#include <cuda_bf16.h>

#include <cstdint>

// The instructions of Hopper that a matrix product is made of: barriers in shared memory that also
// count arriving bytes, bulk copies of tensor boxes, products of a warp group. PTX ISA 8, sections
// "mbarrier", "cp.async.bulk.tensor" and "wgmma".

namespace verlcpp::cuda {

__device__ inline uint32_t shared_address(const void* place) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(place));
}

// --- barriers: a phase ends when `count` arrivals and all bytes announced for it have come
__device__ inline void init_barrier(uint64_t* barrier, int count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)),
               "r"(count));
}
/// Arrives, and announces bytes that copies bring.
__device__ inline void arrive_expecting(uint64_t* barrier, uint32_t bytes) {
  asm volatile(
      "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)),
      "r"(bytes)
      : "memory");
}
/// Arrives at the same barrier of block `rank` of the cluster.
__device__ inline void arrive_at(uint64_t* barrier, uint32_t rank) {
  asm volatile(
      "{\n"
      ".reg .b32 remote;\n"
      "mapa.shared::cluster.u32 remote, %0, %1;\n"
      "mbarrier.arrive.shared::cluster.b64 _, [remote];\n"
      "}\n" ::"r"(shared_address(barrier)),
      "r"(rank)
      : "memory");
}
/// Until the phase of this parity has ended.
__device__ inline void wait_for(uint64_t* barrier, uint32_t parity) {
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "again:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@done bra.uni ended;\n"
      "bra.uni again;\n"
      "ended:\n"
      "}\n" ::"r"(shared_address(barrier)),
      "r"(parity)
      : "memory");
}
__device__ inline uint32_t rank_in_cluster() {
  uint32_t rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}
__device__ inline void cluster_sync() {
  asm volatile(
      "barrier.cluster.arrive.release.aligned;\n"
      "barrier.cluster.wait.acquire.aligned;\n" ::
          : "memory");
}
/// Makes the barriers just initialised visible to copies and to the cluster.
__device__ inline void publish_barriers() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

// --- copies
/// The box at (column, row) of a tensor into this block's shared memory.
__device__ inline void copy_box(void* to, const CUtensorMap& map, uint64_t* barrier, int column,
                                int row) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, "
      "%4}], [%2];" ::"r"(shared_address(to)),
      "l"(&map), "r"(shared_address(barrier)), "r"(column), "r"(row)
      : "memory");
}
/// The same to the same place in every block of the cluster that `blocks` has a bit for; bytes
/// count at each one's own barrier.
__device__ inline void copy_box_to(uint16_t blocks, void* to, const CUtensorMap& map,
                                   uint64_t* barrier, int column, int row) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
      ".multicast::cluster [%0], [%1, {%4, %5}], [%2], %3;" ::"r"(shared_address(to)),
      "l"(&map), "r"(shared_address(barrier)), "h"(blocks), "r"(column), "r"(row)
      : "memory");
}

// --- products of a warp group
/// Where a K-major operand lies: rows of 128 bytes, swizzled by copies in groups of eight rows.
__device__ inline uint64_t operand(const void* place) {
  constexpr uint64_t kSwizzled128 = uint64_t{1} << 62, kGroupStride = uint64_t{1024 / 16} << 32;
  constexpr uint64_t kUnused = uint64_t{1} << 16;
  return kSwizzled128 | kGroupStride | kUnused | ((shared_address(place) & 0x3ffff) >> 4);
}
__device__ inline void begin_products() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ inline void commit_products() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
/// Until at most N committed groups are unfinished.
template <int N>
__device__ inline void wait_for_products() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(N) : "memory");
}
template <int Registers>
__device__ inline void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(Registers));
}
template <int Registers>
__device__ inline void give_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(Registers));
}

#define VERLCPP_EIGHT(d, i)                                                                   \
  "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), \
      "+f"(d[i + 6]), "+f"(d[i + 7])
#define VERLCPP_THIRTY_TWO(d, i) \
  VERLCPP_EIGHT(d, i), VERLCPP_EIGHT(d, i + 8), VERLCPP_EIGHT(d, i + 16), VERLCPP_EIGHT(d, i + 24)

/// d = a b^T (+ d where `adds`) for a of 64 x 16, b of 256 x 16 bfloat16. Thread t of the group
/// holds of row 16 (t / 32) + t % 32 / 4 (+ 8) the columns 8 j + 2 (t % 4) (+ 1): d[4 j], d[4 j +
/// 1] (d[4 j + 2], d[4 j + 3]).
__device__ inline void multiply_64x256x16(float (&d)[128], uint64_t a, uint64_t b, bool adds) {
  asm volatile(
      "{\n"
      ".reg .pred p;\n"
      "setp.ne.b32 p, %130, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
      "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
      "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, "
      "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "
      "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, "
      "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, "
      "%111, %112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, "
      "%125, %126, %127}, %128, %129, p, 1, 1, 0, 0;\n"
      "}\n"
      : VERLCPP_THIRTY_TWO(d, 0), VERLCPP_THIRTY_TWO(d, 32), VERLCPP_THIRTY_TWO(d, 64),
        VERLCPP_THIRTY_TWO(d, 96)
      : "l"(a), "l"(b), "r"(static_cast<int>(adds)));
}

#undef VERLCPP_EIGHT
#undef VERLCPP_THIRTY_TWO

}  // namespace verlcpp::cuda
