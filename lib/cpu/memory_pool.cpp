#include "cpu/memory_pool.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <string>

#include "base/error.h"

namespace verlcpp::cpu {
namespace {

constexpr size_t kAlignment = 64;

/// Four sizes between two powers of two: at most a quarter of a block is unused, and batches of
/// slightly different lengths share blocks.
size_t block_size(size_t bytes) {
  if (bytes <= kAlignment) return kAlignment;
  const size_t step = std::max(std::bit_ceil(bytes) / 8, kAlignment);
  return (bytes + step - 1) / step * step;
}

}  // namespace

MemoryPool::~MemoryPool() {
  for (auto& [size, head] : free_) {
    while (head != nullptr) {
      FreeBlock* next = head->next;
      std::free(head);
      head = next;
    }
  }
}

std::shared_ptr<std::byte> MemoryPool::allocate(int64_t bytes) {
  expects(bytes >= 0, "negative allocation");
  const size_t size = block_size(static_cast<size_t>(bytes));
  std::byte* block = take(size);
  return {block, [pool = shared_from_this(), size](std::byte* p) { pool->give_back(p, size); }};
}

std::byte* MemoryPool::take(size_t size) {
  std::lock_guard lock(mutex_);
  FreeBlock*& head = free_[size];
  std::byte* block = nullptr;
  if (head != nullptr) {
    block = reinterpret_cast<std::byte*>(head);
    head = head->next;
  } else {
    block = static_cast<std::byte*>(std::aligned_alloc(kAlignment, size));
  }
  if (block == nullptr) {
    throw DeviceError("out of host memory: " + std::to_string(size) + " bytes more than the " +
                      std::to_string(current_bytes_) + " in use were refused");
  }
  current_bytes_ += static_cast<int64_t>(size);
  peak_bytes_ = std::max(peak_bytes_, current_bytes_);
  return block;
}

void MemoryPool::give_back(std::byte* block, size_t size) noexcept {
  std::lock_guard lock(mutex_);
  FreeBlock*& head = free_.find(size)->second;
  head = std::construct_at(reinterpret_cast<FreeBlock*>(block), FreeBlock{head});
  current_bytes_ -= static_cast<int64_t>(size);
}

int64_t MemoryPool::current_bytes() const {
  std::lock_guard lock(mutex_);
  return current_bytes_;
}

int64_t MemoryPool::peak_bytes() const {
  std::lock_guard lock(mutex_);
  return peak_bytes_;
}

void MemoryPool::reset_peak_bytes() {
  std::lock_guard lock(mutex_);
  peak_bytes_ = current_bytes_;
}

}  // namespace verlcpp::cpu
