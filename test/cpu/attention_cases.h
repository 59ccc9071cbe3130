#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tensor/backend.h"

namespace verlcpp::test {

/// One attention call: shapes and row ranges. kv rows [0, split) and [split, kv_rows) of each
/// document can also be computed as two blocks, where the mask is kNone.
struct AttentionCase {
  std::string name;
  AttentionMask mask;
  int64_t q_rows, kv_rows, heads, kv_heads, head_dim;
  std::vector<int32_t> q_offset, q_length, kv_offset, kv_length;

  double scale() const { return 0.6; }
  Shape q_shape() const { return {q_rows, heads, head_dim}; }
  Shape kv_shape() const { return {kv_rows, kv_heads, head_dim}; }
  Shape lse_shape() const { return {q_rows, heads}; }
};

/// All masks, grouped query heads, gaps between documents, empty documents, documents without kv
/// rows, rows that see nothing, documents longer than any tile, decode.
std::vector<AttentionCase> attention_table();

}  // namespace verlcpp::test
