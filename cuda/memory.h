#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "cuda/arena.h"
#include "cuda/runtime.h"
#include "tensor/memory.h"

namespace verlcpp::cuda {

/// Device memory of one rank, by tag. A block that is freed while kernels still use it is only
/// handed out to later work of the same stream, so nothing waits. What was planned is taken from
/// the card at the start; growth after that is logged. With VERLCPP_SEPARATE_BLOCKS=1 in the
/// environment every block is an allocation of the driver's own, slow, so that compute-sanitizer
/// sees what is read or written beside it, or before it is written.
class MemoryPool : public std::enable_shared_from_this<MemoryPool> {
 public:
  explicit MemoryPool(int device);
  ~MemoryPool();
  /// Takes the plan's bytes from the card. DeviceError when it has not as many.
  void reserve(const Reservation& reservation);
  /// DeviceError with what each tag holds when the card is full.
  std::shared_ptr<std::byte> allocate(int64_t bytes, MemoryTag tag);

  /// Every block is an allocation of the driver's own.
  bool separate() const { return separate_; }
  MemoryBytes peak_bytes() const;
  void reset_peak_bytes();
  /// Taken from the card.
  int64_t reserved_bytes() const;

 private:
  struct Taken {
    std::byte* data;
    uint32_t id;
  };
  std::shared_ptr<std::byte> separate_block(int64_t bytes, MemoryTag tag);
  Taken take(int64_t bytes, MemoryTag tag);
  void give_back(uint32_t id, int64_t bytes, MemoryTag tag) noexcept;
  void grow(size_t bytes, MemoryTag tag);
  bool add_segment(size_t size);
  void remove_empty_segments();
  [[noreturn]] void fail(size_t bytes, MemoryTag tag) const;

  const int device_;
  const bool separate_;
  mutable std::mutex mutex_;  // tensors may be freed on other threads
  Arena arena_;
  std::vector<std::byte*> segments_;
  MemoryAccount account_;
  std::optional<Reservation> reservation_;
};

}  // namespace verlcpp::cuda
