#pragma once

#include <cuda_runtime_api.h>

#include <string>

namespace verlcpp::cuda {

/// Throws DeviceError naming the call and the driver's reason. Out of memory is said as such.
void check(cudaError_t status, const std::string& what);

/// After a kernel launch: configuration errors show at once, the kernel's own later.
inline void check_launch(const char* kernel) { check(cudaGetLastError(), kernel); }

}  // namespace verlcpp::cuda
