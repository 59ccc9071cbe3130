#include "cuda/runtime.h"

#include <cuda_runtime_api.h>

#include <string>

#include "base/error.h"
#include "cuda/backend.h"
#include "cuda/check.h"

namespace verlcpp::cuda {

std::unique_ptr<Backend> make_backend(int device) {
  int devices = 0;
  const cudaError_t status = cudaGetDeviceCount(&devices);
  if (status != cudaSuccess) {
    throw DeviceError(std::string("trainer.device=cuda: ") + cudaGetErrorString(status) +
                      "; trainer.device=cpu runs without a GPU");
  }
  if (device >= devices) {
    throw DeviceError(
        "trainer.device=cuda: rank " + std::to_string(device) + " needs GPU " +
        std::to_string(device) + ", this machine has " + std::to_string(devices) +
        "; set trainer.n_gpus_per_node, or let ranks share with trainer.ranks_per_gpu");
  }
  return std::make_unique<CudaBackend>(device);
}

bool usable(std::string* why) {
  int devices = 0;
  const cudaError_t status = cudaGetDeviceCount(&devices);
  if (status != cudaSuccess) {
    *why = cudaGetErrorString(status);
    return false;
  }
  try {
    const auto backend = make_backend(0);
    const Tensor from = backend->allocate(DType::kFloat32, {1}, MemoryTag::kWorkspace);
    backend->fill_zero(from);
    // A conversion is a kernel: a GPU of another architecture than the build's refuses it.
    backend->copy(backend->allocate(DType::kBFloat16, {1}, MemoryTag::kWorkspace), from);
    backend->synchronize();
  } catch (const DeviceError& error) {
    *why = error.what();
    return false;
  }
  *why = "this machine has " + std::to_string(devices) + (devices == 1 ? " GPU" : " GPUs");
  return true;
}

}  // namespace verlcpp::cuda
