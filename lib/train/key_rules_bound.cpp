#include "train/key_kinds.h"

// Rules about keys that structs bind, for their type and their checks, but that nothing reads.

namespace verlcpp::train {
namespace {

constexpr KeyKind kNoEffect = KeyKind::kNoEffect;
constexpr KeyKind kRefused = KeyKind::kRefused;

constexpr const char* kOneEngine = "there is one engine";
constexpr const char* kActorsLayout = "the reference runs in the actor's layout";
constexpr const char* kDeprecated =
    "deprecated: the size per GPU is read, and this one refused where it would count";
constexpr const char* kNoReturns = "of advantage estimators with returns; grpo has none";

const KeyRule kBoundRules[] = {
    {"model_engine", kRefused, kOneEngine},
    {"actor_rollout_ref.*.strategy", kRefused, kOneEngine},
    {"actor_rollout_ref.*.megatron.pipeline_model_parallel_size", kRefused,
     "pipeline parallelism is not implemented"},
    {"actor_rollout_ref.*.megatron.virtual_pipeline_model_parallel_size", kRefused,
     "pipeline parallelism is not implemented"},
    {"actor_rollout_ref.*.megatron.use_remove_padding", kNoEffect,
     "sequences are packed in any case; dynamic CP refuses False, as in verl"},
    {"actor_rollout_ref.*.megatron.pad_to_length", kRefused, "sequences are packed"},
    {"actor_rollout_ref.*.megatron.forward_only", kNoEffect,
     "the actor is trained and the reference is not, whatever it says"},
    {"actor_rollout_ref.*.megatron.router_replay.mode", kRefused,
     "router replay needs a mixture-of-experts model, which this build does not run"},
    {"actor_rollout_ref.actor.megatron.override_transformer_config.attention_backend", kNoEffect,
     "the device and the dtype decide how attention is computed"},
    {"actor_rollout_ref.actor.megatron.override_transformer_config.recompute_modules", kNoEffect,
     "selective recompute is of [core_attn]; others are refused where they would count"},
    {"actor_rollout_ref.ref.megatron.tensor_model_parallel_size", kRefused, kActorsLayout},
    {"actor_rollout_ref.ref.megatron.context_parallel_size", kRefused, kActorsLayout},
    {"actor_rollout_ref.ref.megatron.dynamic_context_parallel", kRefused, kActorsLayout},
    {"actor_rollout_ref.ref.megatron.sequence_parallel", kNoEffect, kActorsLayout},
    {"actor_rollout_ref.ref.megatron.use_distributed_optimizer", kNoEffect,
     "the reference is not trained"},
    {"actor_rollout_ref.ref.megatron.seed", kNoEffect,
     "the reference starts from the actor's weights"},
    {"actor_rollout_ref.actor.optim.optimizer", kRefused, "only adam is implemented"},
    {"actor_rollout_ref.actor.rollout_n", kRefused, "must be actor_rollout_ref.rollout.n"},
    {"actor_rollout_ref.actor.ppo_micro_batch_size", kNoEffect, kDeprecated},
    {"actor_rollout_ref.*.log_prob_micro_batch_size", kNoEffect, kDeprecated},
    {"actor_rollout_ref.actor.policy_loss.loss_mode", kRefused, "only vanilla is implemented"},
    {"actor_rollout_ref.rollout.log_prob_use_dynamic_bsz", kRefused,
     "must be actor_rollout_ref.actor.use_dynamic_bsz"},
    {"actor_rollout_ref.rollout.mode", kRefused, "of inference servers; sync is gone in verl"},
    {"actor_rollout_ref.rollout.tensor_model_parallel_size", kNoEffect,
     "the rollout runs in the training layout"},
    {"actor_rollout_ref.rollout.gpu_memory_utilization", kNoEffect,
     "the KV cache takes what --dry-run plans"},
    {"actor_rollout_ref.rollout.multi_turn.enable", kRefused, "responses are single turns"},
    {"actor_rollout_ref.rollout.multi_turn.function_tool_path", kRefused,
     "tools that are Python functions are not read"},
    {"actor_rollout_ref.model.use_remove_padding", kNoEffect,
     "sequences are packed in any case; dynamic CP refuses False, as in verl"},
    {"data.function_tool_path", kRefused, "tools that are Python functions are not read"},
    {"data.filter_overlong_prompts_workers", kNoEffect, "one thread does it"},
    {"data.dataloader_num_workers", kNoEffect, "one thread does it"},
    {"data.validation_shuffle", kNoEffect,
     "the order of prompts changes no result of a validation"},
    {"reward.num_workers", kNoEffect, "rules take no time, and a program is one process"},
    {"reward.reward_manager.source", kRefused,
     "a manager class of the user's is Python, which is not run"},
    {"reward.reward_manager.module.*", kNoEffect, "of source=importlib, which is refused"},
    {"reward.reward_model.enable", kRefused, "a reward model is not implemented"},
    {"reward.sandbox_fusion.url", kRefused, "code is not run in a sandbox"},
    {"algorithm.gamma", kNoEffect, kNoReturns},
    {"algorithm.lam", kNoEffect, kNoReturns},
    {"critic.enable", kRefused, "the value model is not implemented"},
    {"distillation.enabled", kRefused, "distillation is not implemented"},
};

}  // namespace

std::span<const KeyRule> bound_key_rules() { return kBoundRules; }

}  // namespace verlcpp::train
