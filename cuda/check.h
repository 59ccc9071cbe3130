#pragma once

#include <cuda_runtime_api.h>

#include <string>

namespace verlcpp::cuda {

/// Throws DeviceError naming the call and the driver's reason. Out of memory is said as such, with
/// what is free.
void check(cudaError_t status, const std::string& what);

/// Of cudaHostAlloc, whose memory is the machine's, not a card's.
void check_pinned(cudaError_t status, size_t bytes);

/// DeviceError of a library (cuBLAS, cuDNN, NCCL) that failed: `message`, led by what is free where
/// the card is all but full, since libraries do not always say that this was why.
[[noreturn]] void throw_library_failure(const std::string& message);

/// After a kernel launch: configuration errors show at once, the kernel's own later.
inline void check_launch(const char* kernel) { check(cudaGetLastError(), kernel); }

}  // namespace verlcpp::cuda
