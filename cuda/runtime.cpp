#include "cuda/runtime.h"

#include <cuda_runtime_api.h>

#include <string>

#include "base/error.h"
#include "cuda/backend.h"
#include "cuda/check.h"

namespace verlcpp::cuda {

std::unique_ptr<Backend> make_backend(int device, const BackendOptions& options) {
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
  return std::make_unique<CudaBackend>(device, options);
}

}  // namespace verlcpp::cuda
