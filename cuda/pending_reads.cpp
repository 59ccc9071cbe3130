#include "cuda/pending_reads.h"

#include <algorithm>
#include <bit>
#include <string>
#include <utility>

#include "cuda/check.h"
#include "cuda/kernels.h"

namespace verlcpp::cuda {
namespace {
/// Few bytes are written by a kernel: a step's tokens, between two graphs, would keep the GPU idle
/// for longer than they take while it changes over to a copy engine and back.
constexpr size_t kBytesByKernel = 16384;
}  // namespace

PendingReads::Pinned::Pinned(size_t size) : bytes(size) {
  check_pinned(cudaHostAlloc(reinterpret_cast<void**>(&data), bytes, cudaHostAllocDefault), bytes);
}

PendingReads::Pinned::~Pinned() { cudaFreeHost(data); }

std::shared_ptr<PendingReads::Pinned> PendingReads::take(size_t bytes) {
  std::unique_ptr<Pinned> pinned;
  const auto fits = std::find_if(idle_->begin(), idle_->end(),
                                 [bytes](const auto& p) { return p->bytes >= bytes; });
  if (fits != idle_->end()) {
    pinned = std::move(*fits);
    idle_->erase(fits);
  } else {
    pinned = std::make_unique<Pinned>(std::bit_ceil(std::max(bytes, size_t{4096})));
  }
  return {pinned.release(),
          [idle = idle_](Pinned* p) { idle->push_back(std::unique_ptr<Pinned>(p)); }};
}

PendingRead PendingReads::read(const Tensor& x) {
  const auto size = static_cast<size_t>(x.bytes());
  auto pinned = take(size);
  if (size <= kBytesByKernel) {
    copy_by_kernel(stream_, x.bytes(), pinned->data, x.data());
  } else {
    check(cudaMemcpyAsync(pinned->data, x.data(), size, cudaMemcpyDeviceToHost, stream_),
          "read_later");
  }
  return [wait = wait_, pinned = std::move(pinned), size, done = Event(stream_)] {
    wait([&done] { return done.status(); });
    return std::span<const std::byte>(pinned->data, size);
  };
}

}  // namespace verlcpp::cuda
