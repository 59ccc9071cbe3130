#include "cuda/attention_plan_key.h"

namespace verlcpp::cuda {
namespace {

std::string name_of(AttentionMask mask) {
  if (mask == AttentionMask::kNone) return "no mask";
  return mask == AttentionMask::kCausal ? "causal" : "causal from the bottom right";
}

}  // namespace

AttentionPlanKey plan_key(const AttentionCall& call, const DocumentGroup& group) {
  return {.backward = call.backward,
          .mask = call.mask,
          .scale = static_cast<float>(call.scale),
          .heads = call.heads,
          .kv_heads = call.kv_heads,
          .head_dim = call.head_dim,
          .documents = group.bucket,
          .q_length = group.q_bucket,
          .kv_length = group.kv_bucket,
          .q_rows = call.backward ? power_of_two(call.q_rows) : 0,
          .kv_rows = call.backward ? power_of_two(call.kv_rows) : 0};
}

std::string to_text(const AttentionPlanKey& key) {
  return (key.backward ? "attention backward, " : "attention forward, ") + name_of(key.mask) +
         ", " + std::to_string(key.heads) + "/" + std::to_string(key.kv_heads) + " heads of " +
         std::to_string(key.head_dim) + ", up to " + std::to_string(key.documents) +
         " documents of up to " + std::to_string(key.q_length) + " rows against " +
         std::to_string(key.kv_length) +
         (key.backward ? ", of " + std::to_string(key.q_rows) + " against " +
                             std::to_string(key.kv_rows) + " in all"
                       : "");
}

}  // namespace verlcpp::cuda
