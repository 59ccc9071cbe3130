#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cpu/op_cases.h"

namespace verlcpp::test {

/// One call of decode_attention. Its sequences lie in scattered blocks; what no sequence has
/// written yet is NaN, and table entries without a block lead nowhere.
struct DecodeCase {
  std::string name;
  int64_t heads, kv_heads, head_dim, block;
  std::vector<int32_t> positions;

  double scale() const { return 0.6; }
  int64_t sequences() const { return static_cast<int64_t>(positions.size()); }
  int64_t table_length() const;
  /// Block m of sequence b; each belongs to one.
  int32_t block_of(int64_t b, int64_t m) const;
  int64_t cache_blocks() const { return sequences() * table_length() + 1; }
  int64_t row_of(int64_t b, int64_t position) const {
    return block_of(b, position / block) * block + position % block;
  }
  Shape q_shape() const { return {sequences(), heads, head_dim}; }
  Shape kv_shape() const { return {sequences(), kv_heads, head_dim}; }
  Shape cache_shape() const { return {cache_blocks() * block, kv_heads, head_dim}; }
  /// Random numbers that bfloat16 holds, NaN where nothing is written yet.
  std::vector<double> cache(uint64_t stream) const;
};

/// Grouped query heads, first tokens, full and half full blocks, rows without a sequence, more
/// query heads to a kv head than a kernel takes, few long sequences and many.
std::vector<DecodeCase> decode_cases();

/// Random numbers that bfloat16 holds.
std::vector<double> rounded_values(int64_t n, uint64_t stream);

struct Decoded {
  std::vector<double> o, cache_k, cache_v;
};
Decoded decoded(const OpRun& run, const DecodeCase& c);

}  // namespace verlcpp::test
