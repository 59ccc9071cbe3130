#include <iterator>

#include "train/key_kinds.h"

// The table behind --explain-keys: keys that no struct binds.

namespace verlcpp::train {
namespace {

constexpr KeyKind kNoEffect = KeyKind::kNoEffect;
constexpr KeyKind kRefused = KeyKind::kRefused;
constexpr KeyKind kMoved = KeyKind::kMoved;

constexpr const char* kServer =
    "for inference servers; responses are made by the training weights in place";
constexpr const char* kTrainingLayout = "the rollout runs in the training layout";
constexpr const char* kDistCheckpoint =
    "of Megatron's checkpoint format, which use_dist_checkpointing (refused) turns on";
constexpr const char* kEntropy =
    "changes memory, no number; model.use_fused_kernels saves the memory of logits";
constexpr const char* kExperts = "of mixture-of-experts models, which are not implemented";
constexpr const char* kRouterReplay = "of router replay, which router_replay.mode turns on";
constexpr const char* kNoRouterReplay =
    "router replay needs a mixture-of-experts model, which is not implemented";
constexpr const char* kQat = "of training with quantized weights, which qat.enable turns on";
constexpr const char* kNoQat = "training with quantized weights is not implemented";
constexpr const char* kLora = "of low-rank adapters, which lora_rank and lora.rank turn on";
constexpr const char* kNoLora = "low-rank adapters are not implemented; all weights are trained";
constexpr const char* kMtp = "of multi-token prediction, which mtp.enable turns on";
constexpr const char* kNoMtp = "multi-token prediction is not implemented";
constexpr const char* kTextOnly = "models are text only";
constexpr const char* kPyTorch = "of verl's PyTorch engines";
constexpr const char* kPython = "of verl's data set in Python; rows are read from data.train_files";
constexpr const char* kOffload =
    "nothing is moved to host memory; --dry-run shows whether a rank's part fits";
constexpr const char* kCritic =
    "the value model is not implemented: algorithm.adv_estimator=gae and critic.enable=True are "
    "refused";
constexpr const char* kLegacy =
    "of a reward model or a sandbox, in the place of older releases; neither is implemented";

const KeyRule kRules[] = {
    {"**._target_", kNoEffect, "the Python class that verl makes of the group"},

    // The engine's block of actor and reference.
    {"actor_rollout_ref.*.megatron.*_offload", kNoEffect, kOffload},
    {"actor_rollout_ref.*.megatron.expert_model_parallel_size", kRefused,
     "mixture-of-experts models are not implemented; tensor_model_parallel_size splits dense ones"},
    {"actor_rollout_ref.*.megatron.expert_tensor_parallel_size", kNoEffect, kExperts},
    {"actor_rollout_ref.*.megatron.use_dist_checkpointing", kRefused,
     "weights are read from a Hugging Face folder, actor_rollout_ref.model.path, and saved as one"},
    {"actor_rollout_ref.*.megatron.dist_checkpointing_*", kNoEffect, kDistCheckpoint},
    {"actor_rollout_ref.*.megatron.dist_ckpt_*", kNoEffect, kDistCheckpoint},
    {"actor_rollout_ref.*.megatron.distrib_optim_*", kNoEffect, kDistCheckpoint},
    {"actor_rollout_ref.*.megatron.entropy_from_logits_*", kNoEffect, kEntropy},
    {"actor_rollout_ref.*.megatron.override_ddp_config.**", kNoEffect,
     "gradients are summed in float32 in one flat buffer"},
    {"actor_rollout_ref.*.megatron.override_mcore_model_config.**", kRefused,
     "is not read; actor_rollout_ref.model.override_config changes keys of config.json"},
    {"actor_rollout_ref.*.megatron.use_mbridge", kRefused,
     "Hugging Face folders are read and written directly, and verl itself takes no other value"},
    {"actor_rollout_ref.*.megatron.vanilla_mbridge", kNoEffect,
     "Hugging Face folders are read and written directly"},
    {"actor_rollout_ref.*.megatron.pad_bshd_*", kNoEffect,
     "of unpacked batches; sequences are packed"},
    {"actor_rollout_ref.*.megatron.pad_to_length_bucket", kNoEffect,
     "of pad_to_length, which is refused"},
    {"actor_rollout_ref.*.megatron.use_megatron_fsdp", kRefused,
     "weights are not sharded over data-parallel ranks; tensor_model_parallel_size splits them"},
    {"actor_rollout_ref.*.megatron.router_replay.**", kNoEffect, kRouterReplay},
    {"actor_rollout_ref.*.megatron.qat.enable", kRefused, kNoQat},
    {"actor_rollout_ref.*.megatron.qat.**", kNoEffect, kQat},

    // The actor's optimizer.
    {"actor_rollout_ref.actor.optim.weight_decay_incr_style", kRefused,
     "the weight decay is the same in every step"},
    {"actor_rollout_ref.actor.optim.lr_wsd_*", kNoEffect,
     "of lr_decay_style=WSD, which is refused"},
    {"actor_rollout_ref.actor.optim.use_checkpoint_opt_param_scheduler", kRefused,
     "after a resume, too, the schedule is the one that is configured"},
    {"actor_rollout_ref.actor.optim.use_precision_aware_optimizer", kNoEffect,
     "the gradient and AdamW's moments are float32, as with its default dtypes"},
    {"actor_rollout_ref.actor.optim.main_grads_dtype", kRefused,
     "the gradient is summed in float32"},
    {"actor_rollout_ref.actor.optim.exp_avg*_dtype", kRefused, "AdamW's moments are float32"},
    {"actor_rollout_ref.actor.optim.use_layer_wise_distributed_optimizer", kNoEffect,
     "of optimizer=muon, which is refused"},
    {"actor_rollout_ref.actor.optim.muon_*", kNoEffect, "of optimizer=muon, which is refused"},
    {"actor_rollout_ref.actor.optim.override_optimizer_config.*offload*", kNoEffect, kOffload},
    {"actor_rollout_ref.actor.optim.override_optimizer_config.overlap_*", kNoEffect,
     "changes time, no number"},
    {"actor_rollout_ref.actor.optim.override_optimizer_config.pin_cpu_*", kNoEffect, kOffload},
    {"actor_rollout_ref.actor.optim.override_optimizer_config.use_precision_aware_optimizer",
     kNoEffect, "the gradient and AdamW's moments are float32, as with its default dtypes"},
    {"actor_rollout_ref.actor.optim.override_optimizer_config.**", kRefused,
     "is not read; actor_rollout_ref.actor.optim holds what can be set"},

    // Actor and reference.
    {"actor_rollout_ref.actor.tau_*", kNoEffect, "of loss_mode=sapo, which is refused"},
    {"actor_rollout_ref.actor.policy_loss.**", kNoEffect,
     "of other loss modes than vanilla, which are refused"},
    {"actor_rollout_ref.actor.freeze_vision_tower", kNoEffect, kTextOnly},
    {"actor_rollout_ref.actor.calculate_sum_pi_squared", kNoEffect,
     "of adv_estimator=optimal_token_baseline, which is refused"},
    {"actor_rollout_ref.actor.use_prefix_grouper", kNoEffect, kPyTorch},
    {"actor_rollout_ref.*.use_torch_compile", kNoEffect, kPyTorch},
    {"actor_rollout_ref.actor.use_fused_kernels", kNoEffect,
     "actor_rollout_ref.model.use_fused_kernels is read"},
    {"actor_rollout_ref.*.entropy_from_logits_*", kNoEffect, kEntropy},
    {"actor_rollout_ref.actor.checkpoint.async_save", kNoEffect,
     "a save ends before the next step begins"},
    {"actor_rollout_ref.actor.checkpoint.strict", kNoEffect,
     "whatever load_contents names has to be there"},
    {"actor_rollout_ref.actor.checkpoint.mbridge_config.**", kNoEffect,
     "Hugging Face folders are read and written directly"},
    {"actor_rollout_ref.*.router_replay.mode", kRefused, kNoRouterReplay},
    {"actor_rollout_ref.*.router_replay.**", kNoEffect, kRouterReplay},
    {"actor_rollout_ref.actor.qat.enable", kRefused, kNoQat},
    {"actor_rollout_ref.actor.qat.**", kNoEffect, kQat},
    {"actor_rollout_ref.ref.rollout_n", kNoEffect, "the reference takes the actor's batch"},
    {"actor_rollout_ref.*.profiler.**", kNoEffect,
     "verl's profilers are not implemented; nsys or perf can start verlcpp-train"},
    {"actor_rollout_ref.hybrid_engine", kRefused, "the rollout runs on the ranks that train"},

    // The rollout.
    {"actor_rollout_ref.rollout.nnodes", kNoEffect, "the rollout runs on the ranks that train"},
    {"actor_rollout_ref.rollout.n_gpus_per_node", kNoEffect,
     "the rollout runs on the ranks that train"},
    {"actor_rollout_ref.rollout.over_sample_rate", kRefused,
     "every response is generated to its end"},
    {"actor_rollout_ref.rollout.calculate_log_probs", kNoEffect,
     "the old log-probabilities come from a pass of their own"},
    {"actor_rollout_ref.rollout.logprobs_mode", kNoEffect,
     "the old log-probabilities come from a pass of their own"},
    {"actor_rollout_ref.rollout.dtype", kNoEffect,
     "responses are made by the training weights, in actor.megatron.dtype"},
    {"actor_rollout_ref.rollout.data_parallel_size", kNoEffect, kTrainingLayout},
    {"actor_rollout_ref.rollout.expert_parallel_size", kNoEffect, kTrainingLayout},
    {"actor_rollout_ref.rollout.pipeline_model_parallel_size", kNoEffect, kTrainingLayout},
    {"actor_rollout_ref.rollout.enforce_eager", kNoEffect, kServer},
    {"actor_rollout_ref.rollout.cudagraph_capture_sizes", kNoEffect, kServer},
    {"actor_rollout_ref.rollout.free_cache_engine", kNoEffect, kServer},
    {"actor_rollout_ref.rollout.max_num_batched_tokens", kNoEffect, kServer},
    {"actor_rollout_ref.rollout.max_model_len", kNoEffect, kServer},
    {"actor_rollout_ref.rollout.enable_chunked_prefill", kNoEffect, kServer},
    {"actor_rollout_ref.rollout.enable_prefix_caching", kNoEffect, kServer},
    {"actor_rollout_ref.rollout.scheduling_policy", kNoEffect, kServer},
    {"actor_rollout_ref.rollout.load_format", kNoEffect, kServer},
    {"actor_rollout_ref.rollout.layered_summon", kNoEffect, kServer},
    {"actor_rollout_ref.rollout.multi_stage_wake_up", kNoEffect, kServer},
    {"actor_rollout_ref.rollout.disable_log_stats", kNoEffect, kServer},
    {"actor_rollout_ref.rollout.skip_tokenizer_init", kNoEffect, kServer},
    {"actor_rollout_ref.rollout.engine_kwargs.**", kNoEffect, kServer},
    {"actor_rollout_ref.rollout.disaggregation.**", kNoEffect, kServer},
    {"actor_rollout_ref.rollout.checkpoint_engine.**", kNoEffect, kServer},
    {"actor_rollout_ref.rollout.prometheus.**", kNoEffect, kServer},
    {"actor_rollout_ref.rollout.trace.**", kNoEffect,
     "traces are not implemented; trainer.rollout_data_dir takes the responses"},
    {"actor_rollout_ref.rollout.quantization*", kRefused,
     "responses are made by the training weights, which are not quantized"},
    {"actor_rollout_ref.rollout.qat.**", kRefused, kNoQat},
    {"actor_rollout_ref.rollout.mtp.**", kRefused, kNoMtp},
    {"actor_rollout_ref.rollout.enable_rollout_routing_replay", kRefused, kNoRouterReplay},
    {"actor_rollout_ref.rollout.moe_load_balance_metrics_interval", kNoEffect, kExperts},
    {"actor_rollout_ref.rollout.multi_turn.**", kNoEffect,
     "responses are single turns: multi_turn.enable=True is refused"},
    {"actor_rollout_ref.rollout.agent.num_workers", kNoEffect, "there are no agent processes"},
    {"actor_rollout_ref.rollout.agent.default_agent_loop", kRefused,
     "responses are single turns without tools"},
    {"actor_rollout_ref.rollout.agent.agent_loop_config_path", kRefused,
     "responses are single turns without tools"},
    {"actor_rollout_ref.rollout.agent.custom_async_server.path", kRefused,
     "responses are made by the built-in engine"},
    {"actor_rollout_ref.rollout.agent.custom_async_server.name", kNoEffect,
     "of custom_async_server.path, which is refused"},

    // The model.
    {"actor_rollout_ref.model.hf_config_path", kRefused,
     "config.json is the one in actor_rollout_ref.model.path; override_config changes keys of it"},
    {"actor_rollout_ref.model.tokenizer_path", kRefused,
     "the tokenizer is the one in actor_rollout_ref.model.path"},
    {"actor_rollout_ref.model.override_config.moe_config.*", kRefused,
     "mixture-of-experts models are not implemented"},
    {"actor_rollout_ref.model.use_shm", kNoEffect, "the folder is read where it is"},
    {"actor_rollout_ref.model.trust_remote_code", kNoEffect, "no Python of a model is run"},
    {"actor_rollout_ref.model.external_lib", kRefused,
     "no Python of a model is run; models are of the kinds that the README names"},
    {"actor_rollout_ref.model.enable_gradient_checkpointing", kNoEffect,
     "of verl's PyTorch engines; Megatron's override_transformer_config.recompute_granularity is "
     "honoured"},
    {"actor_rollout_ref.model.enable_activation_offload", kNoEffect, kOffload},
    {"actor_rollout_ref.model.use_liger", kNoEffect, kPyTorch},
    {"actor_rollout_ref.model.fused_kernel_options.**", kNoEffect, "there is one fused kernel"},
    {"actor_rollout_ref.model.tiled_mlp.**", kNoEffect, "changes memory, no number"},
    {"actor_rollout_ref.model.lora_rank", kRefused, kNoLora},
    {"actor_rollout_ref.model.lora_adapter_path", kRefused, kNoLora},
    {"actor_rollout_ref.model.lora.rank", kRefused, kNoLora},
    {"actor_rollout_ref.model.lora.adapter_path", kRefused, kNoLora},
    {"actor_rollout_ref.model.lora_alpha", kNoEffect, kLora},
    {"actor_rollout_ref.model.*_modules", kNoEffect, kLora},
    {"actor_rollout_ref.model.lora.**", kNoEffect, kLora},
    {"actor_rollout_ref.model.mtp.enable*", kRefused, kNoMtp},
    {"actor_rollout_ref.model.mtp.**", kNoEffect, kMtp},

    // Data.
    {"data.tokenizer", kRefused, "the tokenizer is the one in actor_rollout_ref.model.path"},
    {"data.gen_batch_size", kRefused,
     "prompts are taken as many at a time as a step needs, data.train_batch_size"},
    {"data.custom_cls.path", kRefused,
     "a data set class of the user's is Python, which is not run; write its rows into a file"},
    {"data.custom_cls.name", kNoEffect, "of custom_cls.path, which is refused"},
    {"data.use_shm", kNoEffect, "files are read where they are"},
    {"data.trust_remote_code", kNoEffect, "no Python of a model is run"},
    {"data.return_*", kNoEffect, kPython},
    {"data.image_key", kNoEffect, kTextOnly},
    {"data.video_key", kNoEffect, kTextOnly},
    {"data.audio_key", kNoEffect, kTextOnly},
    {"data.image_patch_size", kNoEffect, kTextOnly},
    {"data.mm_processor_kwargs.**", kNoEffect, kTextOnly},

    // Rewards.
    {"reward.reward_model.**", kNoEffect,
     "of a reward model, which reward.reward_model.enable (refused) turns on"},
    {"reward.sandbox_fusion.**", kNoEffect,
     "of a sandbox for code, which reward.sandbox_fusion.url (refused) turns on"},
    {"custom_reward_function.path", kMoved, "reward.custom_reward_function.path"},
    {"custom_reward_function.name", kMoved, "reward.custom_reward_function.name"},
    {"custom_reward_function.reward_kwargs", kMoved, "reward.custom_reward_function.reward_kwargs"},
    {"reward_model.reward_manager", kMoved, "reward.reward_manager.name"},
    {"reward_model.reward_kwargs", kMoved, "reward.reward_kwargs"},
    {"reward_model.enable", kMoved, "reward.reward_model.enable"},
    {"sandbox_fusion.url", kMoved, "reward.sandbox_fusion.url"},
    {"reward_model.**", kNoEffect, kLegacy},
    {"sandbox_fusion.**", kNoEffect, kLegacy},

    // Fields of verl's structs that its files do not list.
    {"actor_rollout_ref.rollout.moe_tensor_parallel_size", kNoEffect, kTrainingLayout},
    {"actor_rollout_ref.rollout.limit_images", kNoEffect, kTextOnly},
    {"actor_rollout_ref.rollout.enable_sleep_mode", kNoEffect, kServer},
    {"actor_rollout_ref.rollout.repetition_penalty", kRefused,
     "sampling does not look at the tokens before"},
    {"actor_rollout_ref.model.lora.fully_sharded_loras", kNoEffect, kLora},

    // The algorithm.
    {"algorithm.rollout_correction.rollout_is", kRefused,
     "responses are made by the training weights: there is nothing to weigh"},
    {"algorithm.rollout_correction.rollout_rs", kRefused,
     "responses are made by the training weights: there is nothing to reject"},
    {"algorithm.rollout_correction.bypass_mode", kRefused,
     "the old log-probabilities come from a pass of their own"},
    {"algorithm.rollout_correction.**", kNoEffect,
     "of corrections that rollout_is, rollout_rs and bypass_mode (refused) turn on"},
    {"algorithm.filter_groups.enable", kRefused,
     "groups whose responses all score the same are kept, none is generated anew"},
    {"algorithm.filter_groups.**", kNoEffect, "of filter_groups.enable=True, which is refused"},
    {"algorithm.use_pf_ppo", kRefused, "responses are not drawn again by their scores"},
    {"algorithm.pf_ppo.**", kNoEffect, "of use_pf_ppo=True, which is refused"},

    // The loop.
    {"trainer.balance_batch", kNoEffect, "micro-batches are balanced in any case"},
    {"trainer.log_val_generations", kNoEffect,
     "for loggers that are not implemented; trainer.validation_data_dir takes the responses"},
    {"trainer.esi_redundant_time", kNoEffect,
     "for instances that end at a known time; SIGTERM saves"},
    {"trainer.critic_warmup", kRefused, "the actor is updated from the first step on"},
    {"trainer.default_hdfs_dir", kRefused,
     "nothing is copied to HDFS; trainer.default_local_dir takes the checkpoints"},
    {"trainer.del_local_ckpt_after_load", kNoEffect,
     "a checkpoint stays until max_actor_ckpt_to_keep removes it"},
    {"trainer.max_critic_ckpt_to_keep", kNoEffect, kCritic},
    {"trainer.ray_wait_register_center_timeout", kNoEffect, "there is no Ray"},
    {"trainer.use_v1", kNoEffect, "there is one loop, with the steps of verl's V1"},
    {"trainer.v1.trainer_mode", kRefused, "each step trains on responses of the newest weights"},
    {"trainer.v1.sampler.custom_sampler.path", kRefused, "a sampler in Python is not run"},
    {"trainer.v1.**", kNoEffect, "of the asynchronous trainer_modes, which are refused"},

    // Whole groups.
    {"critic.**", kNoEffect, kCritic},
    {"distillation.**", kNoEffect, "of a teacher, which distillation.enabled (refused) turns on"},
    {"transfer_queue.**", kNoEffect, "ranks are threads and hand over batches in memory"},
    {"global_profiler.**", kNoEffect,
     "verl's profilers are not implemented; nsys or perf can start verlcpp-train"},
    {"skip.*.enable", kRefused,
     "rollout.record_path and rollout.name=replay record rollouts and play them back"},
    {"skip.**", kNoEffect, "of skip.*.enable=True, which is refused"},
    {"ray_kwargs.**", kNoEffect, "there is no Ray"},
};

}  // namespace

std::span<const KeyRule> key_rules() {
  static const std::vector<KeyRule> all = [] {
    std::vector<KeyRule> rules(std::begin(kRules), std::end(kRules));
    rules.insert(rules.end(), bound_key_rules().begin(), bound_key_rules().end());
    return rules;
  }();
  return all;
}

}  // namespace verlcpp::train
