#include "cuda/memory.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <bit>
#include <string>

#include "base/error.h"
#include "cuda/check.h"

namespace verlcpp::cuda {
namespace {

constexpr size_t kAlignment = 512;
constexpr const char* kTagNames[] = {"weights",   "main_grad", "optimizer", "saved",
                                     "workspace", "kv",        "logits",    "comm"};

/// Eight sizes between two powers of two: at most an eighth of a block is unused, and batches of
/// slightly different lengths share blocks.
size_t block_size(size_t bytes) {
  if (bytes <= kAlignment) return kAlignment;
  const size_t step = std::max(std::bit_ceil(bytes) / 16, kAlignment);
  return (bytes + step - 1) / step * step;
}

}  // namespace

MemoryPool::~MemoryPool() {
  cudaSetDevice(device_);
  for (std::byte* block : blocks_) cudaFree(block);
}

std::shared_ptr<std::byte> MemoryPool::allocate(int64_t bytes, MemoryTag tag) {
  expects(bytes >= 0, "negative allocation");
  const size_t size = block_size(static_cast<size_t>(bytes));
  std::byte* block = take(size, tag);
  return {block,
          [pool = shared_from_this(), size, tag](std::byte* p) { pool->give_back(p, size, tag); }};
}

std::byte* MemoryPool::take(size_t size, MemoryTag tag) {
  std::lock_guard lock(mutex_);
  auto& blocks = free_[size];
  std::byte* block = nullptr;
  if (blocks.empty()) {
    block = grow(size);
  } else {
    block = blocks.back();
    blocks.pop_back();
  }
  current_[static_cast<size_t>(tag)] += static_cast<int64_t>(size);
  total_ += static_cast<int64_t>(size);
  peak_ = std::max(peak_, total_);
  return block;
}

std::byte* MemoryPool::grow(size_t size) {
  void* block = nullptr;
  cudaError_t status = cudaMalloc(&block, size);
  if (status == cudaErrorMemoryAllocation) {  // give unused blocks of other sizes back, and retry
    cudaGetLastError();
    cudaDeviceSynchronize();
    for (auto& [unused, blocks] : free_) {
      for (std::byte* b : blocks) {
        cudaFree(b);
        std::erase(blocks_, b);
      }
      blocks.clear();
    }
    status = cudaMalloc(&block, size);
  }
  if (status == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    size_t free = 0, total = 0;
    cudaMemGetInfo(&free, &total);
    throw DeviceError("out of memory on GPU " + std::to_string(device_) + ": " +
                      std::to_string(size) + " bytes more were refused, " + std::to_string(free) +
                      " of " + std::to_string(total) + " are free; this rank holds " + in_use() +
                      "; --dry-run prints what a run needs");
  }
  check(status, "cudaMalloc");
  blocks_.push_back(static_cast<std::byte*>(block));
  return blocks_.back();
}

void MemoryPool::give_back(std::byte* block, size_t size, MemoryTag tag) {
  std::lock_guard lock(mutex_);
  free_[size].push_back(block);
  current_[static_cast<size_t>(tag)] -= static_cast<int64_t>(size);
  total_ -= static_cast<int64_t>(size);
}

std::string MemoryPool::in_use() const {
  std::string text;
  for (size_t tag = 0; tag < kTags; ++tag) {
    if (current_[tag] == 0) continue;
    text += (text.empty() ? "" : ", ") + std::string(kTagNames[tag]) + " " +
            std::to_string(current_[tag]);
  }
  return text.empty() ? "nothing" : text;
}

int64_t MemoryPool::peak_bytes() const {
  std::lock_guard lock(mutex_);
  return peak_;
}

void MemoryPool::reset_peak_bytes() {
  std::lock_guard lock(mutex_);
  peak_ = total_;
}

}  // namespace verlcpp::cuda
