#pragma once

#include <cuda_runtime_api.h>

#include <memory>

#include "cuda/kernels.h"
#include "cuda/memory.h"
#include "cuda/runtime.h"
#include "tensor/backend.h"

namespace verlcpp::cuda {

/// Packed attention of bfloat16 by cuDNN (9.14 or newer, opened at run time) on one stream. Plans
/// are kept, one for each bucket of shapes; one takes the host about 0.05 s to build, in `prepare`
/// or else when a call first needs it, which is logged. A single document of a length that keeps
/// coming gets a faster plan of its own, except where `deterministic`.
class CudnnAttention {
 public:
  /// Deterministic gradients repeat bit for bit, with a workspace that grows with documents x
  /// length^2; documents are then launched by length. DeviceError when cuDNN is missing or too old.
  CudnnAttention(cudaStream_t stream, std::shared_ptr<MemoryPool> pool,
                 const BackendOptions& options);
  ~CudnnAttention();

  /// Whether these kernels compute this call: bfloat16, head dims that are multiples of 8 up to
  /// 128, every q row of a document sees something, some document is not empty.
  static bool supports(const AttentionCall& call);

  /// Builds the plans that a supported call will look up, and tries whether there is room for their
  /// workspaces. Returns how many were not there yet.
  int64_t prepare(const AttentionCall& call);
  /// All that were built so far.
  int64_t plans() const;

  /// o (bfloat16) and lse of the rows in documents that are not empty; the others stay.
  void forward(const AttentionArgs& args, const AttentionSpans& spans, void* o, float* lse);
  /// d_q, d_k, d_v (bfloat16) likewise overwritten. d_k and d_v have the layout of k and v.
  void backward(const AttentionArgs& args, const AttentionSpans& spans, const void* o,
                const float* lse, const void* d_o, void* d_q, void* d_k, void* d_v);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// The call as `supports` and `prepare` take it.
AttentionCall call_of(DType dtype, const AttentionArgs& args, const AttentionSpans& spans,
                      bool backward);

}  // namespace verlcpp::cuda
