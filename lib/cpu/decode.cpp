#include <algorithm>
#include <string>
#include <vector>

#include "base/error.h"
#include "cpu/kernels.h"

namespace verlcpp::cpu {
namespace {

/// The blocks that hold positions 0..position of sequence `b`.
template <class T>
std::vector<int64_t> blocks_of(const DecodeInput<T>& in, int64_t b, int64_t position) {
  const int64_t used = position / in.block + 1;
  expects(used <= in.blocks_per_sequence, "a sequence is longer than its block table");
  std::vector<int64_t> blocks;
  for (int64_t m = 0; m < used; ++m) {
    const int64_t block = in.tables[b * in.blocks_per_sequence + m];
    if (block < 0 || block >= in.cache_blocks) {
      expects(false, "block " + std::to_string(block) + " of a KV cache of " +
                         std::to_string(in.cache_blocks));
    }
    blocks.push_back(block);
  }
  return blocks;
}

}  // namespace

template <class T>
void decode_attention(const DecodeInput<T>& in, T* o) {
  const int64_t H = in.head_dim, row = in.kv_heads * H, group = in.heads / in.kv_heads;
  std::vector<T> scores;  // [query heads of one kv head, positions]
  for (int64_t b = 0; b < in.sequences; ++b) {
    const int64_t position = in.positions[b], length = position + 1;
    std::fill_n(o + b * in.heads * H, in.heads * H, T{0});
    if (position < 0) continue;
    const std::vector<int64_t> blocks = blocks_of(in, b, position);
    const int64_t own = (blocks.back() * in.block + position % in.block) * row;
    std::copy_n(in.k + b * row, row, in.cache_k + own);
    std::copy_n(in.v + b * row, row, in.cache_v + own);
    scores.resize(static_cast<size_t>(group * length));
    for (int64_t kv_head = 0; kv_head < in.kv_heads; ++kv_head) {
      const int64_t q_at = (b * in.heads + kv_head * group) * H;
      const auto each_block = [&](auto body) {
        for (size_t m = 0; m < blocks.size(); ++m) {
          const int64_t first = static_cast<int64_t>(m) * in.block;
          body(first, std::min(in.block, length - first), blocks[m] * in.block * row + kv_head * H);
        }
      };
      each_block([&](int64_t first, int64_t count, int64_t at) {
        gemm<T>(false, true, group, count, H, static_cast<T>(in.scale), in.q + q_at, H,
                in.cache_k + at, row, 0, scores.data() + first, length);
      });
      for (int64_t n = 0; n < group; ++n) softmax_row(scores.data() + n * length, length, length);
      each_block([&](int64_t first, int64_t count, int64_t at) {
        gemm<T>(false, false, group, H, count, 1, scores.data() + first, length, in.cache_v + at,
                row, 1, o + q_at, H);
      });
    }
  }
}

void advance_sequences(int64_t sequences, int32_t* positions, int32_t* counters) {
  for (int64_t b = 0; b < sequences; ++b) {
    if (positions[b] < 0) continue;
    ++positions[b];
    ++counters[4 * b + 3];
  }
}

template void decode_attention(const DecodeInput<float>&, float*);
template void decode_attention(const DecodeInput<double>&, double*);

}  // namespace verlcpp::cpu
