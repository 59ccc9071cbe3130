#include "base/error.h"
#include "cuda/check.h"
#include "peer_read.h"

namespace verlcpp::bench {
namespace {

constexpr int kThreads = 512;
// Loads under way for each thread: 64 blocks then have 2 MiB on their way, which covers 450 GB/s at
// a latency of a few microseconds.
constexpr int kLoads = 4;

// Read past L1, which keeps nothing that is read once.
__global__ void __launch_bounds__(kThreads)
    peer_read_kernel(uint4* to, const uint4* from, int64_t n) {
  const int64_t step = int64_t{gridDim.x} * kThreads;
  int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  for (; i + (kLoads - 1) * step < n; i += kLoads * step) {
    uint4 part[kLoads];
#pragma unroll
    for (int k = 0; k < kLoads; ++k) part[k] = __ldcg(from + i + k * step);
#pragma unroll
    for (int k = 0; k < kLoads; ++k) to[i + k * step] = part[k];
  }
  for (; i < n; i += step) to[i] = __ldcg(from + i);
}

bool aligned(const void* p) { return reinterpret_cast<uintptr_t>(p) % sizeof(uint4) == 0; }

}  // namespace

void peer_read(cudaStream_t stream, void* to, const void* from, int64_t bytes, int64_t blocks) {
  constexpr auto kUnit = static_cast<int64_t>(sizeof(uint4));
  expects(bytes % kUnit == 0 && aligned(to) && aligned(from), "peer_read moves whole 16 bytes");
  expects(blocks > 0, "peer_read needs a block");
  if (bytes == 0) return;
  peer_read_kernel<<<static_cast<unsigned>(blocks), kThreads, 0, stream>>>(
      static_cast<uint4*>(to), static_cast<const uint4*>(from), bytes / kUnit);
  cuda::check_launch("peer_read");
}

}  // namespace verlcpp::bench
