// One fault for each tool of compute-sanitizer, in a kernel of our namespace: scripts/gpu_check.sh
// demands that each is found, so that filters which check nothing do not pass for a clean run.
//   planted_fault memcheck|racecheck|initcheck|none

#include <cuda_runtime.h>

#include <cstdio>
#include <memory>
#include <string>

#include "cuda/memory.h"

namespace verlcpp::cuda {
namespace {

constexpr int kThreads = 64;

/// Reads `in` at thread + shift, hands it to a neighbour through shared memory, with or without
/// the barrier that this needs.
__global__ void hand_on(float* out, const float* in, int shift, bool barrier) {
  __shared__ float shared[kThreads];
  const int i = static_cast<int>(threadIdx.x);
  shared[i] = in[i + shift];
  if (barrier) __syncthreads();
  out[i] = shared[(i + 33) % kThreads];
}

}  // namespace
}  // namespace verlcpp::cuda

int main(int argc, char** argv) {
  using namespace verlcpp;
  const std::string fault = argc == 2 ? argv[1] : "";
  const int64_t bytes = cuda::kThreads * sizeof(float);
  // Memory as the backend has it: a tool that does not see into the pool finds nothing.
  const auto pool = std::make_shared<cuda::MemoryPool>(0);
  const auto in = pool->allocate(bytes, MemoryTag::kWorkspace);
  const auto out = pool->allocate(bytes, MemoryTag::kWorkspace);
  const auto floats = [](const auto& block) { return reinterpret_cast<float*>(block.get()); };
  if (fault != "initcheck") cudaMemset(in.get(), 0, bytes);
  // The memory fault reads one element behind the block.
  cuda::hand_on<<<1, cuda::kThreads>>>(floats(out), floats(in), fault == "memcheck" ? 1 : 0,
                                       fault != "racecheck");
  const cudaError_t status = cudaDeviceSynchronize();
  std::printf("%s: %s\n", fault.c_str(), cudaGetErrorString(status));
  return 0;
}
