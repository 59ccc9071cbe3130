#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace verlcpp {

/// Which account of the memory plan an allocation belongs to.
enum class MemoryTag { kWeights, kMainGrad, kOptimizer, kSaved, kWorkspace, kKv, kLogits, kComm };
inline constexpr std::array kMemoryTags = {
    MemoryTag::kWeights,   MemoryTag::kMainGrad, MemoryTag::kOptimizer, MemoryTag::kSaved,
    MemoryTag::kWorkspace, MemoryTag::kKv,       MemoryTag::kLogits,    MemoryTag::kComm};

/// weights, main_grad, optimizer, saved, workspace, kv, logits, comm.
std::string_view name_of(MemoryTag tag);

/// Bytes by tag, and of the whole: of peaks less than their sum where tags peak at different times.
struct MemoryBytes {
  std::array<int64_t, kMemoryTags.size()> by_tag{};
  int64_t total = 0;

  int64_t operator[](MemoryTag tag) const { return by_tag[static_cast<size_t>(tag)]; }
  void add(MemoryTag tag, int64_t bytes);
  void add(const MemoryBytes& other);
  /// Every number becomes the larger of both.
  void raise_to(const MemoryBytes& other);
};

/// What a reduction among ranks of one process that share cards takes at most (kComm).
inline constexpr int64_t kPeerReduceBytes = int64_t{64} << 20;

/// What a card that is in use holds beside its ranks' memory: kernels as they are first launched,
/// handles and buffers of cuBLAS, cuDNN and NCCL. Its context, about half a GiB, comes first.
inline constexpr int64_t kForLibraries = int64_t{1} << 30;

/// "1.50 GiB", "312.00 KiB", "17 B".
std::string human_bytes(int64_t bytes);

/// The book of a memory pool: bytes as they were asked for, without rounding, so that every device
/// counts alike. Not thread-safe.
class MemoryAccount {
 public:
  void allocated(MemoryTag tag, int64_t bytes);
  void freed(MemoryTag tag, int64_t bytes) { held_.add(tag, -bytes); }
  const MemoryBytes& held() const { return held_; }
  const MemoryBytes& peak() const { return peak_; }
  /// What is held now is the peak so far.
  void reset_peak() { peak_ = held_; }

 private:
  MemoryBytes held_, peak_;
};

}  // namespace verlcpp
