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

std::shared_ptr<std::byte> MemoryPool::allocate(int64_t bytes, MemoryTag tag) {
  expects(bytes >= 0, "negative allocation");
  const size_t size = block_size(static_cast<size_t>(bytes));
  std::byte* block = take(size, bytes, tag);
  return {block, [pool = shared_from_this(), size, bytes, tag](std::byte* p) {
            pool->give_back(p, size, bytes, tag);
          }};
}

std::byte* MemoryPool::take(size_t size, int64_t bytes, MemoryTag tag) {
  std::lock_guard lock(mutex_);
  FreeBlock*& head = free_[size];
  std::byte* block = nullptr;
  if (head != nullptr) {
    block = reinterpret_cast<std::byte*>(head);
    head = head->next;
  } else {
    block = static_cast<std::byte*>(std::aligned_alloc(kAlignment, size));
    if (block == nullptr) {
      throw DeviceError("out of host memory: " + std::to_string(size) + " bytes of " +
                        std::string(name_of(tag)) + " more than the " +
                        std::to_string(account_.held().total) + " in use were refused");
    }
    reserved_bytes_ += static_cast<int64_t>(size);
  }
  account_.allocated(tag, bytes);
  return block;
}

void MemoryPool::give_back(std::byte* block, size_t size, int64_t bytes, MemoryTag tag) noexcept {
  std::lock_guard lock(mutex_);
  FreeBlock*& head = free_.find(size)->second;
  head = std::construct_at(reinterpret_cast<FreeBlock*>(block), FreeBlock{head});
  account_.freed(tag, bytes);
}

MemoryBytes MemoryPool::held_bytes() const {
  std::lock_guard lock(mutex_);
  return account_.held();
}

MemoryBytes MemoryPool::peak_bytes() const {
  std::lock_guard lock(mutex_);
  return account_.peak();
}

void MemoryPool::reset_peak_bytes() {
  std::lock_guard lock(mutex_);
  account_.reset_peak();
}

int64_t MemoryPool::reserved_bytes() const {
  std::lock_guard lock(mutex_);
  return reserved_bytes_;
}

}  // namespace verlcpp::cpu
