#include "cuda/check.h"

#include "base/error.h"
#include "cuda/memory_message.h"

namespace verlcpp::cuda {
namespace {

struct Card {
  int device = 0;
  size_t free = 0, total = 0;
};

/// Of the thread's device; false when the driver does not say.
bool ask(Card& card) {
  return cudaGetDevice(&card.device) == cudaSuccess &&
         cudaMemGetInfo(&card.free, &card.total) == cudaSuccess;
}

std::string full(const Card& card, const std::string& reason) {
  return full_card_message(card.device, static_cast<int64_t>(card.free),
                           static_cast<int64_t>(card.total), reason);
}

}  // namespace

void check(cudaError_t status, const std::string& what) {
  if (status == cudaSuccess) return;
  const std::string reason = "CUDA: " + what + ": " + cudaGetErrorString(status);
  Card card;
  if (status != cudaErrorMemoryAllocation) throw DeviceError(reason);
  if (ask(card)) throw DeviceError(full(card, reason));
  throw DeviceError("out of memory: a card has no room for CUDA itself (" + reason +
                    "). End what else runs on it, or choose another with CUDA_VISIBLE_DEVICES");
}

void check_pinned(cudaError_t status, size_t bytes) {
  if (status == cudaSuccess) return;
  throw DeviceError("CUDA: cudaHostAlloc of " + human_bytes(static_cast<int64_t>(bytes)) +
                    " of the machine's memory, pinned: " + cudaGetErrorString(status));
}

void throw_library_failure(const std::string& message) {
  constexpr size_t kAllButFull = size_t{256} << 20;
  Card card;
  const std::string line = in_one_line(message);
  if (ask(card) && card.free < kAllButFull) throw DeviceError(full(card, line));
  throw DeviceError(line);
}

}  // namespace verlcpp::cuda
