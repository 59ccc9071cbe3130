#include <cuda_runtime_api.h>

#include <initializer_list>
#include <string>

#include "base/error.h"
#include "cuda/check.h"
#include "cuda/library.h"
#include "cuda/runtime.h"

namespace verlcpp::cuda {
namespace {

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

std::map<std::string, std::string> describe_device(int device) {
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
