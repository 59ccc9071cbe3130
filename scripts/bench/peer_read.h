#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace verlcpp::bench {

/// to = from, which may lie on another GPU that this one can read. Whole 16 bytes, aligned.
void peer_read(cudaStream_t stream, void* to, const void* from, int64_t bytes, int64_t blocks);

}  // namespace verlcpp::bench
