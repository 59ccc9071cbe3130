#include "cuda/staging.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "cuda/check.h"

namespace verlcpp::cuda {

namespace {
constexpr size_t kAlignment = 64;
}  // namespace

Staging::Staging(cudaStream_t stream, std::function<void(cudaEvent_t)> wait)
    : stream_(stream), wait_(std::move(wait)) {
  try {
    check_pinned(cudaHostAlloc(reinterpret_cast<void**>(&memory_), kPieces * kPieceBytes,
                               cudaHostAllocDefault),
                 kPieces * kPieceBytes);
    for (cudaEvent_t& event : arrived_) {
      check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "cudaEventCreate");
    }
  } catch (...) {
    release();
    throw;
  }
}

Staging::~Staging() { release(); }

void Staging::release() {
  for (cudaEvent_t event : arrived_) {
    if (event != nullptr) cudaEventDestroy(event);
  }
  if (memory_ != nullptr) cudaFreeHost(memory_);
}

void Staging::write(std::byte* dst, std::span<const std::byte> src) {
  while (!src.empty()) {
    if (used_ >= kPieceBytes) next_piece();
    const size_t count = std::min(kPieceBytes - used_, src.size());
    std::byte* pinned = memory_ + piece_ * kPieceBytes + used_;
    std::memcpy(pinned, src.data(), count);
    check(cudaMemcpyAsync(dst, pinned, count, cudaMemcpyHostToDevice, stream_), "write");
    used_ += (count + kAlignment - 1) / kAlignment * kAlignment;
    dst += count;
    src = src.subspan(count);
  }
}

void Staging::next_piece() {
  check(cudaEventRecord(arrived_[piece_], stream_), "cudaEventRecord");
  piece_ = (piece_ + 1) % kPieces;
  used_ = 0;
  // An event that was never recorded counts as reached.
  wait_(arrived_[piece_]);
}

}  // namespace verlcpp::cuda
