#include "cuda/runtime.h"

#include <cuda_runtime_api.h>

#include <initializer_list>
#include <string>

#include "base/error.h"
#include "cuda/backend.h"
#include "cuda/check.h"
#include "cuda/library.h"

namespace verlcpp::cuda {

namespace {

void expect_device(int device) {
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
}

/// 13010 -> "13.1"
std::string cuda_version(int number) {
  return std::to_string(number / 1000) + "." + std::to_string(number % 1000 / 10);
}

/// What a version function of a library that may be absent says; "" when it is.
std::string library_version(const char* function, std::initializer_list<const char*> names) {
  try {
    return std::to_string(Library("its version", names).function<size_t()>(function)());
  } catch (const DeviceError&) {
    return "";
  }
}

}  // namespace

std::unique_ptr<Backend> make_backend(int device) {
  expect_device(device);
  return std::make_unique<CudaBackend>(device);
}

std::map<std::string, std::string> describe_device(int device) {
  expect_device(device);
  cudaDeviceProp properties{};
  int driver = 0, runtime = 0;
  check(cudaGetDeviceProperties(&properties, device), "cudaGetDeviceProperties");
  check(cudaDriverGetVersion(&driver), "cudaDriverGetVersion");
  check(cudaRuntimeGetVersion(&runtime), "cudaRuntimeGetVersion");
  std::map<std::string, std::string> all{{"name", properties.name},
                                         {"driver", cuda_version(driver)},
                                         {"runtime", cuda_version(runtime)}};
  const std::string cublas =
      library_version("cublasLtGetVersion", {"libcublasLt.so.13", "libcublasLt.so.12"});
  const std::string cudnn = library_version("cudnnGetVersion", {"libcudnn.so.9"});
  if (!cublas.empty()) all["cublas"] = cublas;
  if (!cudnn.empty()) all["cudnn"] = cudnn;
  return all;
}

}  // namespace verlcpp::cuda
