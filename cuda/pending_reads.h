#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include "cuda/event.h"
#include "tensor/backend.h"

namespace verlcpp::cuda {

/// Device memory to pinned host memory, to be waited for later. Pinned memory of reads that are
/// over serves later ones.
class PendingReads {
 public:
  /// `wait` returns once the query says that it is over.
  PendingReads(cudaStream_t stream, std::function<void(std::function<cudaError_t()>)> wait)
      : stream_(stream), wait_(std::move(wait)), idle_(std::make_shared<Idle>()) {}

  PendingRead read(const Tensor& x);

 private:
  struct Pinned {
    explicit Pinned(size_t size);
    ~Pinned();
    Pinned(const Pinned&) = delete;
    Pinned& operator=(const Pinned&) = delete;
    std::byte* data = nullptr;
    size_t bytes;
  };
  using Idle = std::vector<std::unique_ptr<Pinned>>;
  /// At least so many bytes; they go back to the idle ones, which may outlive this.
  std::shared_ptr<Pinned> take(size_t bytes);

  cudaStream_t stream_;
  std::function<void(std::function<cudaError_t()>)> wait_;
  std::shared_ptr<Idle> idle_;
};

}  // namespace verlcpp::cuda
