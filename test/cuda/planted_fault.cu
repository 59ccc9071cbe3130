// One fault for each tool of compute-sanitizer, in a kernel of our namespace: scripts/gpu_check.sh
// demands that each is found, so that filters which check nothing do not pass for a clean run.
//   planted_fault memcheck|racecheck|initcheck|none

#include <cuda_runtime.h>

#include <cstdio>
#include <string>

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
  using namespace verlcpp::cuda;
  const std::string fault = argc == 2 ? argv[1] : "";
  const size_t bytes = kThreads * sizeof(float);
  float *in = nullptr, *out = nullptr;
  cudaMalloc(&in, bytes);
  cudaMalloc(&out, bytes);
  if (fault != "initcheck") cudaMemset(in, 0, bytes);
  // Far behind the block: an allocation is rounded up by hundreds of bytes.
  hand_on<<<1, kThreads>>>(out, in, fault == "memcheck" ? 1 << 20 : 0, fault != "racecheck");
  const cudaError_t status = cudaDeviceSynchronize();
  std::printf("%s: %s\n", fault.c_str(), cudaGetErrorString(status));
  return 0;
}
