#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

#include "tensor/memory.h"

namespace verlcpp::cpu {

/// 64-byte aligned host memory with one free list per block size, so that a training step reuses
/// the blocks of the one before. Every block holds the pool, which thus outlives all of them; a
/// block may be released on another thread than the one that asked for it.
class MemoryPool : public std::enable_shared_from_this<MemoryPool> {
 public:
  MemoryPool() = default;
  ~MemoryPool();
  MemoryPool(const MemoryPool&) = delete;
  MemoryPool& operator=(const MemoryPool&) = delete;

  /// Uninitialised memory of at least `bytes` (zero is valid and gives a non-null pointer).
  /// Throws DeviceError when the machine has no more.
  std::shared_ptr<std::byte> allocate(int64_t bytes, MemoryTag tag);

  /// Bytes asked for: now, and the most at one time (since the last reset).
  MemoryBytes held_bytes() const;
  MemoryBytes peak_bytes() const;
  void reset_peak_bytes();
  /// Bytes of all blocks, free ones too.
  int64_t reserved_bytes() const;

 private:
  struct FreeBlock {  // lives inside of the free memory itself: releasing never allocates
    FreeBlock* next;
  };

  std::byte* take(size_t size, int64_t bytes, MemoryTag tag);
  void give_back(std::byte* block, size_t size, int64_t bytes, MemoryTag tag) noexcept;

  mutable std::mutex mutex_;
  std::map<size_t, FreeBlock*> free_;  // by block size; an entry once made stays
  MemoryAccount account_;
  int64_t reserved_bytes_ = 0;
};

}  // namespace verlcpp::cpu
