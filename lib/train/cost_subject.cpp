#include "train/cost_subject.h"

#include <fmt/format.h>

#include "train/engine.h"

namespace verlcpp::train {
namespace {

/// "none", "'full' uniform", "'full' block 3".
std::string recompute_text(const MegatronConfig& megatron) {
  const config::Node* granularity = transformer_override(megatron, "recompute_granularity");
  if (granularity == nullptr) return "none";
  std::string text = config::to_inline(*granularity);
  for (const char* key : {"recompute_modules", "recompute_method", "recompute_num_layers"}) {
    const config::Node* node = transformer_override(megatron, key);
    if (node != nullptr) text += " " + config::to_inline(*node);
  }
  return text;
}

}  // namespace

std::string cost_subject(const model::ModelConfig& model, const TrainConfig& config) {
  const ActorRolloutRefConfig& roles = config.actor_rollout_ref;
  const MegatronConfig& megatron = roles.actor.megatron;
  const bool gathers = cp_comm_type(megatron) == model::CpCommType::kAllGather;
  return fmt::format(
      "{}, {} layers, hidden {}, ffn {}, heads {}, kv heads {}, head dim {}, vocabulary {}, {}, TP "
      "{}, recompute {}{}{}{}",
      model.architecture, model.layers, model.hidden, model.ffn, model.heads, model.kv_heads,
      model.head_dim, model.vocab, megatron.dtype, megatron.tensor_model_parallel_size,
      recompute_text(megatron), gathers ? ", cp_comm_type all_gather" : "",
      megatron.tensor_model_parallel_size > 1 && megatron.sequence_parallel ? ", sequence parallel"
                                                                            : "",
      roles.model.use_fused_kernels ? ", fused kernels" : "");
}

}  // namespace verlcpp::train
