#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "cuda/kernels.h"
#include "cuda/memory.h"
#include "tensor/backend.h"

namespace verlcpp::cuda {

/// The smallest power of two that is not less.
int64_t power_of_two(int64_t n);

/// Documents of one attention call as cuDNN wants them. The three buckets are powers of two and the
/// shape of the plan that fits: a plan for a bucket serves every call that falls into it.
struct RaggedGroup {
  int64_t documents = 0, bucket = 0;  // entries from `documents` on are empty documents
  int64_t q_bucket = 0, kv_bucket = 0;
  std::shared_ptr<std::byte> memory;  // owns what these point to:
  RaggedArrays arrays{};
};

/// All documents in one group; or, where `by_length`, groups of documents of like length. Built at
/// the first use of `spans` and kept in its backend_state.
const std::vector<RaggedGroup>& ragged_groups(cudaStream_t stream, MemoryPool& pool,
                                              const AttentionArgs& args,
                                              const AttentionSpans& spans, bool by_length);

}  // namespace verlcpp::cuda
