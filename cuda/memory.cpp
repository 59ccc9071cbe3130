#include "cuda/memory.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdlib>
#include <string>

#include "base/error.h"
#include "base/log.h"
#include "cuda/check.h"
#include "cuda/memory_message.h"

namespace verlcpp::cuda {
namespace {

constexpr size_t kPage = size_t{2} << 20;  // what the driver hands out
constexpr size_t kSmallestGrowth = size_t{32} << 20, kLargestGrowth = size_t{1} << 30;

size_t whole_pages(size_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

/// Best fit leaves holes that nothing fits: a hundredth of the peak in most steps, a tenth in some.
/// No more than the rank's share of what is free leaves.
size_t with_slack(size_t bytes, size_t share) {
  const size_t wanted = bytes / 16 + kSmallestGrowth;
  if (share == 0) return whole_pages(bytes + wanted);  // not known
  const size_t most = share > bytes ? share - bytes : 0;
  return whole_pages(bytes + std::min(wanted, most));
}

/// cudaMalloc, which is no work of a stream: also while this thread captures one.
cudaError_t malloc_always(void** memory, size_t bytes) {
  cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
  cudaThreadExchangeStreamCaptureMode(&mode);
  const cudaError_t status = cudaMalloc(memory, bytes);
  cudaThreadExchangeStreamCaptureMode(&mode);
  return status;
}

}  // namespace

MemoryPool::MemoryPool(int device)
    : device_(device), separate_([] {
        const char* value = std::getenv("VERLCPP_SEPARATE_BLOCKS");
        return value != nullptr && std::string(value) == "1";
      }()) {}

MemoryPool::~MemoryPool() {
  int current = device_;  // a tensor may be the pool's last, on a thread of another GPU
  cudaGetDevice(&current);
  cudaSetDevice(device_);
  for (std::byte* segment : segments_) cudaFree(segment);
  cudaSetDevice(current);
}

void MemoryPool::reserve(const Reservation& reservation) {
  std::lock_guard lock(mutex_);
  reservation_ = reservation;
  if (separate_) return;
  const auto planned = static_cast<size_t>(reservation.planned.total);
  if (add_segment(with_slack(planned, static_cast<size_t>(reservation.share)))) return;
  if (add_segment(whole_pages(planned))) return;
  size_t free = 0, total = 0;
  check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
  throw DeviceError(no_room_message(device_, static_cast<int64_t>(free),
                                    static_cast<int64_t>(total), reservation.planned,
                                    reservation.ranks_per_gpu));
}

std::shared_ptr<std::byte> MemoryPool::allocate(int64_t bytes, MemoryTag tag) {
  expects(bytes >= 0, "negative allocation");
  if (separate_) return separate_block(bytes, tag);
  const Taken taken = take(bytes, tag);
  return {taken.data, [pool = shared_from_this(), id = taken.id, bytes, tag](std::byte*) {
            pool->give_back(id, bytes, tag);
          }};
}

std::shared_ptr<std::byte> MemoryPool::separate_block(int64_t bytes, MemoryTag tag) {
  void* memory = nullptr;
  check(malloc_always(&memory, static_cast<size_t>(std::max<int64_t>(bytes, 1))), "cudaMalloc");
  std::lock_guard lock(mutex_);
  account_.allocated(tag, bytes);
  return {static_cast<std::byte*>(memory), [pool = shared_from_this(), bytes, tag](std::byte* p) {
            cudaDeviceSynchronize();  // kernels may still use it
            cudaFree(p);
            std::lock_guard guard(pool->mutex_);
            pool->account_.freed(tag, bytes);
          }};
}

MemoryPool::Taken MemoryPool::take(int64_t bytes, MemoryTag tag) {
  const auto size = static_cast<size_t>(bytes);
  std::lock_guard lock(mutex_);
  std::optional<Arena::Block> block = arena_.allocate(size);
  if (!block) {
    grow(size, tag);
    block = arena_.allocate(size);
  }
  account_.allocated(tag, bytes);
  return {segments_[block->segment] + block->offset, block->id};
}

void MemoryPool::give_back(uint32_t id, int64_t bytes, MemoryTag tag) noexcept {
  std::lock_guard lock(mutex_);
  arena_.free(id);
  account_.freed(tag, bytes);
}

/// A segment that more may follow in, else just what is asked for, else in place of empty ones.
void MemoryPool::grow(size_t bytes, MemoryTag tag) {
  const size_t least = whole_pages(Arena::rounded(bytes));
  const size_t more = std::clamp(arena_.reserved() / 8, kSmallestGrowth, kLargestGrowth);
  const size_t before = arena_.reserved();
  if (!add_segment(std::max(least, whole_pages(more))) && !add_segment(least)) {
    remove_empty_segments();
    if (!add_segment(least)) fail(bytes, tag);
  }
  if (!reservation_) return;
  log::warning("GPU " + std::to_string(device_) + ": memory grew from " +
               human_bytes(static_cast<int64_t>(before)) + " to " +
               human_bytes(static_cast<int64_t>(arena_.reserved())) + ": " +
               std::string(name_of(tag)) + " asked for " +
               human_bytes(static_cast<int64_t>(bytes)) + " and holds " +
               human_bytes(account_.held()[tag]) + " of " +
               human_bytes(reservation_->planned[tag]) + " planned");
}

/// False when the card is full.
bool MemoryPool::add_segment(size_t size) {
  void* memory = nullptr;
  const cudaError_t status = malloc_always(&memory, size);
  if (status == cudaErrorMemoryAllocation) {
    cudaGetLastError();  // taken note of
    return false;
  }
  check(status, "cudaMalloc");
  segments_.push_back(static_cast<std::byte*>(memory));
  arena_.add_segment(size);
  return true;
}

void MemoryPool::remove_empty_segments() {
  cudaDeviceSynchronize();
  for (const size_t segment : arena_.remove_empty_segments()) {
    cudaFree(segments_[segment]);
    segments_[segment] = nullptr;
  }
}

void MemoryPool::fail(size_t bytes, MemoryTag tag) const {
  OutOfMemory refused{.device = device_,
                      .tag = tag,
                      .asked = static_cast<int64_t>(bytes),
                      .free = 0,
                      .total = 0,
                      .held = account_.held(),
                      .planned = {}};
  if (reservation_) {
    refused.planned = reservation_->planned;
    refused.ranks_per_gpu = reservation_->ranks_per_gpu;
  }
  size_t free = 0, total = 0;
  cudaMemGetInfo(&free, &total);
  refused.free = static_cast<int64_t>(free);
  refused.total = static_cast<int64_t>(total);
  throw DeviceError(out_of_memory_message(refused));
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
  return static_cast<int64_t>(arena_.reserved());
}

}  // namespace verlcpp::cuda
