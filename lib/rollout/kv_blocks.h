#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace verlcpp::rollout {

/// Which blocks of a KV cache are in use, by how many holders each: sequences that share a prompt
/// share its blocks.
class KvBlocks {
 public:
  explicit KvBlocks(int64_t blocks);

  int64_t free() const { return static_cast<int64_t>(free_.size()); }
  /// `count` blocks that nobody holds; expects as many.
  std::vector<int32_t> take(int64_t count);
  /// One more holder.
  void share(std::span<const int32_t> blocks);
  /// One holder less; a block without any is free.
  void release(std::span<const int32_t> blocks);

 private:
  std::vector<int32_t> free_;     // the next one last
  std::vector<int32_t> holders_;  // by block
};

/// Blocks for `slots` sequences of up to `positions` each at one time: nothing shared, and one
/// block of a prompt whose other responses are still to come.
int64_t kv_blocks(int64_t slots, int64_t positions);

}  // namespace verlcpp::rollout
