#pragma once

#include <compare>
#include <cstdint>
#include <string>

#include "cuda/document_groups.h"
#include "tensor/backend.h"

namespace verlcpp::cuda {

/// What a cuDNN plan depends on; it serves every call of its key. Sizes are powers of two.
struct AttentionPlanKey {
  bool backward;
  AttentionMask mask;
  float scale;
  int64_t heads, kv_heads, head_dim;
  int64_t documents, q_length, kv_length;
  int64_t q_rows, kv_rows;  // of the backward, whose workspace they size; else 0
  auto operator<=>(const AttentionPlanKey&) const = default;
};

AttentionPlanKey plan_key(const AttentionCall& call, const DocumentGroup& group);

/// "attention backward, causal, 14/2 heads of 64, ...": all but the scale.
std::string to_text(const AttentionPlanKey& key);

}  // namespace verlcpp::cuda
