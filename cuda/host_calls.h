#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <vector>

#include "cuda/event.h"
#include "tensor/backend.h"

namespace verlcpp::cuda {

/// Host code beside a stream's work: inputs travel to pinned memory, the driver's thread runs the
/// code, outputs travel back, on a stream of their own. To be used by the rank's thread.
class HostCalls {
 public:
  explicit HostCalls(cudaStream_t compute);
  ~HostCalls();
  HostCalls(const HostCalls&) = delete;
  HostCalls& operator=(const HostCalls&) = delete;

  /// After all that the compute stream holds now; the event is reached when outputs are written.
  Event enqueue(const std::vector<Tensor>& inputs, const std::vector<Tensor>& outputs,
                HostCode code);
  /// Throws what code has thrown, if any; code enqueued after it is not run.
  void rethrow();

 private:
  struct Pinned {
    std::byte* data = nullptr;
    size_t bytes = 0;
  };
  struct Call {
    HostCalls& owner;
    HostCode code;
    Pinned memory;
    std::vector<std::span<const std::byte>> inputs = {};
    std::vector<std::span<std::byte>> outputs = {};
    Event done = {};
    bool enqueued = false;  // all of it: else enqueueing has failed
  };
  void run(Call& call) noexcept;
  /// Pinned memory of `bytes` at least: that of a call that is over, or new.
  Pinned take(size_t bytes);
  void retire();

  cudaStream_t compute_, stream_ = nullptr;
  std::deque<std::unique_ptr<Call>> calls_;  // in order
  std::vector<Pinned> idle_;
  std::mutex mutex_;    // guards failure_
  std::mutex running_;  // held while code runs
  std::exception_ptr failure_;
};

}  // namespace verlcpp::cuda
