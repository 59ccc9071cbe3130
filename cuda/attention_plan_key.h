#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "cuda/document_groups.h"
#include "tensor/backend.h"

namespace verlcpp::cuda {

/// What a cuDNN plan depends on; it serves every call of its key. Sizes are powers of two, or those
/// of one document that is the whole call.
struct AttentionPlanKey {
  bool backward;
  AttentionMask mask;
  float scale;
  int64_t heads, kv_heads, head_dim;
  int64_t documents, q_length, kv_length;
  int64_t q_rows, kv_rows;  // of the backward, whose workspace they size; else 0
  bool own_length = false;  // one document of just this length, without ranges
  auto operator<=>(const AttentionPlanKey&) const = default;
};

AttentionPlanKey plan_key(const AttentionCall& call, const DocumentGroup& group);

/// The key of a plan for this call alone, where one document has all of its rows.
std::optional<AttentionPlanKey> own_length_key(const AttentionCall& call);

/// Which lengths have come so often that plans of their own pay.
class RepeatedLengths {
 public:
  /// `flops`: floating-point operations that a key's calls are to have taken.
  explicit RepeatedLengths(double flops) : flops_(flops) {}
  /// Counts a call with own_length_key's key; true when its plan is to be made, which is once. Of
  /// kMost keys at most.
  bool pays(const AttentionPlanKey& key);

  static constexpr int kMost = 64;

 private:
  double flops_;
  std::map<AttentionPlanKey, double> spent_;
  int chosen_ = 0;
};

/// "attention backward, causal, 14/2 heads of 64, ...": all but the scale.
std::string to_text(const AttentionPlanKey& key);

}  // namespace verlcpp::cuda
