#include "rollout/kv_blocks.h"

#include "base/error.h"
#include "model/transformer.h"

namespace verlcpp::rollout {

KvBlocks::KvBlocks(int64_t blocks) : holders_(static_cast<size_t>(blocks), 0) {
  for (int64_t b = blocks; b > 0; --b) free_.push_back(static_cast<int32_t>(b - 1));
}

std::vector<int32_t> KvBlocks::take(int64_t count) {
  expects(count >= 0 && count <= free(), "the KV cache has no block left");
  std::vector<int32_t> taken;
  for (int64_t i = 0; i < count; ++i) {
    taken.push_back(free_.back());
    free_.pop_back();
    holders_.at(static_cast<size_t>(taken.back())) = 1;
  }
  return taken;
}

void KvBlocks::share(std::span<const int32_t> blocks) {
  for (const int32_t block : blocks) {
    int32_t& holders = holders_.at(static_cast<size_t>(block));
    expects(holders > 0, "a block that nobody holds is shared");
    ++holders;
  }
}

void KvBlocks::release(std::span<const int32_t> blocks) {
  for (const int32_t block : blocks) {
    int32_t& holders = holders_.at(static_cast<size_t>(block));
    expects(holders > 0, "a block that nobody holds is released");
    if (--holders == 0) free_.push_back(block);
  }
}

int64_t kv_blocks(int64_t slots, int64_t positions) {
  return slots * ((positions + model::kKvBlock - 1) / model::kKvBlock) + 1;
}

}  // namespace verlcpp::rollout
