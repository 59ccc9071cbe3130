#pragma once

#include <cuda_runtime_api.h>

#include <memory>

namespace verlcpp::cuda {

/// A point in a stream's work. Copies share it; any thread and device may wait for it.
class Event {
 public:
  Event() = default;
  /// After all work that `stream` holds now.
  explicit Event(cudaStream_t stream);
  /// Later work of `stream` starts after it. The host does not wait.
  void before(cudaStream_t stream) const;
  bool reached() const;
  /// cudaErrorNotReady before it is reached.
  cudaError_t status() const;

 private:
  std::shared_ptr<CUevent_st> event_;
};

}  // namespace verlcpp::cuda
