#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <vector>

#include "cuda/document_groups.h"
#include "cuda/kernels.h"
#include "cuda/memory.h"
#include "tensor/backend.h"

namespace verlcpp::cuda {

/// A group of documents with its offsets and lengths on the device.
struct RaggedGroup {
  DocumentGroup group;
  std::shared_ptr<std::byte> memory;  // owns what these point to:
  RaggedArrays arrays{};
};

/// document_groups of the call, built at the first use of `spans` and kept in its backend_state.
const std::vector<RaggedGroup>& ragged_groups(cudaStream_t stream, MemoryPool& pool,
                                              const AttentionArgs& args,
                                              const AttentionSpans& spans, bool by_length);

/// Whether this is the first call, forward or backward, with `spans`: those of one pass over one
/// micro-batch.
bool first_call(const AttentionArgs& args, const AttentionSpans& spans, bool backward);

}  // namespace verlcpp::cuda
