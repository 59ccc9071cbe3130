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

/// When a length that one document alone has gets a plan of its own: it has come in so many passes
/// (a micro-batch each), so that it will go on coming, and its calls have taken so many
/// floating-point operations. A plan takes the host 0.05 s, the first of a kind up to 0.4 s, and
/// saves a twelfth of the time: as much in as many passes as there were.
struct OwnLengthRule {
  int64_t passes = 8;
  double flops = 2e14;
  static constexpr OwnLengthRule never() { return {.passes = int64_t{1} << 62, .flops = 0}; }
};

/// Which lengths that holds for.
class RepeatedLengths {
 public:
  explicit RepeatedLengths(const OwnLengthRule& rule) : rule_(rule) {}
  /// Counts a call with own_length_key's key, the first of its pass or a further one; true when its
  /// plan is to be made, which is once. Of kMost keys at most.
  bool pays(const AttentionPlanKey& key, bool first_of_pass);

  static constexpr int kMost = 64;

 private:
  struct Count {
    int64_t passes = 0;
    double flops = 0;
    bool chosen = false;
  };
  const OwnLengthRule rule_;
  std::map<AttentionPlanKey, Count> counts_;
  int chosen_ = 0;
};

/// "attention backward, causal, 14/2 heads of 64, ...": all but the scale.
std::string to_text(const AttentionPlanKey& key);

}  // namespace verlcpp::cuda
