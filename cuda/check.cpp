#include "cuda/check.h"

#include "base/error.h"

namespace verlcpp::cuda {

void check(cudaError_t status, const std::string& what) {
  if (status == cudaSuccess) return;
  throw DeviceError("CUDA: " + what + ": " + cudaGetErrorString(status));
}

}  // namespace verlcpp::cuda
