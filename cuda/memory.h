#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "tensor/backend.h"

namespace verlcpp::cuda {

/// Device memory of one rank, by tag. Freed blocks are kept and handed out again: a block freed
/// while kernels still use it is only reused by later work of the same stream, so nothing waits.
/// Grows by cudaMalloc when no block fits; after warm-up it does not.
class MemoryPool : public std::enable_shared_from_this<MemoryPool> {
 public:
  explicit MemoryPool(int device) : device_(device) {}
  ~MemoryPool();
  /// DeviceError with what each tag holds when the card is full.
  std::shared_ptr<std::byte> allocate(int64_t bytes, MemoryTag tag);
  int64_t peak_bytes() const;
  void reset_peak_bytes();

 private:
  static constexpr size_t kTags = 8;
  std::byte* take(size_t size, MemoryTag tag);
  std::byte* grow(size_t size);
  void give_back(std::byte* block, size_t size, MemoryTag tag);
  std::string in_use() const;

  const int device_;
  mutable std::mutex mutex_;  // tensors may be freed on other threads
  std::map<size_t, std::vector<std::byte*>> free_;
  std::vector<std::byte*> blocks_;
  int64_t current_[kTags] = {}, total_ = 0, peak_ = 0;
};

}  // namespace verlcpp::cuda
