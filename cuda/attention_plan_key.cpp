#include "cuda/attention_plan_key.h"

namespace verlcpp::cuda {
namespace {

std::string name_of(AttentionMask mask) {
  if (mask == AttentionMask::kNone) return "no mask";
  return mask == AttentionMask::kCausal ? "causal" : "causal from the bottom right";
}

/// Of one call.
double flops_of(const AttentionPlanKey& key) {
  const auto pairs = static_cast<double>(key.documents * key.q_length * key.kv_length);
  return (key.mask == AttentionMask::kNone ? 4 : 2) * (key.backward ? 2.5 : 1) * pairs *
         static_cast<double>(key.heads * key.head_dim);
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

std::optional<AttentionPlanKey> own_length_key(const AttentionCall& call) {
  if (call.q_lengths.size() != 1) return std::nullopt;
  const int64_t q_length = call.q_lengths[0], kv_length = call.kv_lengths[0];
  if (q_length != call.q_rows || kv_length != call.kv_rows) return std::nullopt;
  return AttentionPlanKey{.backward = call.backward,
                          .mask = call.mask,
                          .scale = static_cast<float>(call.scale),
                          .heads = call.heads,
                          .kv_heads = call.kv_heads,
                          .head_dim = call.head_dim,
                          .documents = 1,
                          .q_length = q_length,
                          .kv_length = kv_length,
                          .q_rows = 0,
                          .kv_rows = 0,
                          .own_length = true};
}

bool RepeatedLengths::pays(const AttentionPlanKey& key, bool first_of_pass) {
  Count& count = counts_[key];
  count.passes += first_of_pass ? 1 : 0;
  count.flops += flops_of(key);
  if (count.chosen || count.passes < rule_.passes || count.flops < rule_.flops) return false;
  if (chosen_ == kMost) return false;
  ++chosen_;
  count.chosen = true;
  return true;
}

std::string to_text(const AttentionPlanKey& key) {
  const std::string many = key.own_length
                               ? "one document of "
                               : "up to " + std::to_string(key.documents) + " documents of up to ";
  const std::string in_all = key.backward && !key.own_length
                                 ? ", of " + std::to_string(key.q_rows) + " against " +
                                       std::to_string(key.kv_rows) + " in all"
                                 : "";
  return (key.backward ? "attention backward, " : "attention forward, ") + name_of(key.mask) +
         ", " + std::to_string(key.heads) + "/" + std::to_string(key.kv_heads) + " heads of " +
         std::to_string(key.head_dim) + ", " + many + std::to_string(key.q_length) +
         " rows against " + std::to_string(key.kv_length) + in_all;
}

}  // namespace verlcpp::cuda
