#include <string>

#include "train/key_kinds.h"

// The keys of verl's composed PPO trainers for Megatron from October 2024 on that 0.9 does not
// have.

namespace verlcpp::train {
namespace {

std::string now(const std::string& place) { return "of older releases is now " + place; }
std::string gone(const std::string& why) { return "of older releases is gone: " + why; }

/// Those of a role of the Megatron engine.
void add_role(const std::string& role, config::OldKeys& keys) {
  keys[role + "load_weight"] = gone("weights are always loaded");
  keys[role + "profile"] = now(role + "profiler");
  keys[role + "profiler.discrete"] = now(role + "profiler.tool_config.nsys.discrete");
  keys[role + "megatron.num_layers_per_virtual_pipeline_stage"] =
      now(role + "megatron.virtual_pipeline_model_parallel_size");
  keys[role + "ulysses_sequence_parallel_size"] =
      "is of verl's FSDP engine; Megatron's is " + role + "megatron.context_parallel_size";
  keys[role + "fsdp_config"] = "is of verl's FSDP engine; Megatron's is " + role + "megatron";
}

/// Those of a role that is trained.
void add_trained_role(const std::string& role, config::OldKeys& keys) {
  keys[role + "checkpoint.contents"] = now(role + "checkpoint.save_contents, with load_contents");
  keys[role + "optim.min_lr_ratio"] = now(role + "optim.min_lr, a learning rate");
  keys[role + "optim.warmup_style"] = now(role + "optim.lr_decay_style");
  keys[role + "grad_clip"] = "is of verl's FSDP engine; Megatron's is " + role + "optim.clip_grad";
}

void add_roles(config::OldKeys& keys) {
  const std::string a = "actor_rollout_ref.";
  for (const std::string& role : {a + "actor.", a + "ref.", std::string("critic.")}) {
    add_role(role, keys);
    if (role != a + "ref.") add_trained_role(role, keys);
  }
  keys[a + "actor.tis_imp_ratio_cap"] = now("algorithm.rollout_correction.rollout_is_threshold");
  keys[a + "profiler"] = now(a + "actor.profiler");
  keys[a + "ref.param_offload"] = now(a + "ref.megatron.param_offload");
  const std::string recompute =
      "megatron.override_transformer_config.recompute_granularity, with recompute_method and "
      "recompute_num_layers";
  keys[a + "model.gradient_checkpointing_kwargs"] = now(a + "actor." + recompute);
  keys["critic.model.gradient_checkpointing_kwargs"] = now("critic." + recompute);
  keys["critic.kl_ctrl"] = now("algorithm.kl_ctrl");
}

void add_rollout(config::OldKeys& keys) {
  const std::string rollout = "actor_rollout_ref.rollout.", multi_turn = rollout + "multi_turn.";
  keys[rollout + "engine_kwargs.attention_backend"] =
      now(rollout + "engine_kwargs.sglang, which takes it after a +");
  keys[rollout + "engine_kwargs.swap_space"] =
      now(rollout + "engine_kwargs.vllm, which takes it after a +");
  keys[rollout + "layer_name_map"] = gone("weights stay where they are");
  for (const std::string name : {"micro_batch_size", "micro_batch_size_per_gpu"}) {
    for (const std::string role : {"actor_rollout_ref.rollout.", "actor_rollout_ref.ref."}) {
      keys[role + name] = now(role + "log_prob_micro_batch_size_per_gpu");
    }
    keys["actor_rollout_ref.actor." + name] =
        now("actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu");
  }
  keys[rollout + "skip_rollout"] = now("skip.rollout.enable");
  keys[rollout + "skip_dump_dir"] = now("skip.rollout.dump_dir");
  keys[rollout + "update_weights_bucket_megabytes"] =
      now(rollout + "checkpoint_engine.update_weights_bucket_megabytes");
  keys[multi_turn + "max_turns"] = now(multi_turn + "max_assistant_turns");
  keys[multi_turn + "enable_tokenization_sanity_check"] =
      now(multi_turn + "tokenization_sanity_check_mode");
  keys[multi_turn + "completion_callback"] = gone("responses are single turns");
  keys[multi_turn + "interaction_config_path"] = gone("responses are single turns");
}

void add_algorithm(config::OldKeys& keys) {
  const std::string correction = "algorithm.rollout_correction.";
  for (const std::string name :
       {"rollout_is", "rollout_is_threshold", "rollout_rs", "rollout_rs_threshold"}) {
    keys["algorithm." + name] = now(correction + name);
  }
  for (const std::string name :
       {"algorithm.rollout_is_level", "algorithm.rollout_is_mode",
        "algorithm.rollout_is_threshold_lower", "algorithm.rollout_is_veto_threshold",
        "algorithm.rollout_rs_threshold_lower", "algorithm.rollout_token_veto_threshold",
        "algorithm.use_pure_rollout_correction",
        "algorithm.rollout_correction.rollout_rs_threshold_lower",
        "algorithm.rollout_correction.rollout_token_veto_threshold",
        "algorithm.rollout_correction.use_pure_rollout_correction"}) {
    keys[name] = gone(
        "rollout_is, rollout_rs and their thresholds in algorithm.rollout_correction "
        "are what is left");
  }
  keys["algorithm.bypass_old_logprob_for_rollout"] = now(correction + "bypass_mode");
  keys[correction + "bypass_old_logprob_for_rollout"] = now(correction + "bypass_mode");
  keys[correction + "use_policy_gradient"] = now(correction + "loss_type");
}

void add_rewards(config::OldKeys& keys) {
  keys["reward_manager"] = now("reward.reward_manager");
  keys["reward_model.sandbox_fusion"] = now("reward.sandbox_fusion");
  keys["reward_model.launch_reward_fn_async"] = gone("responses are scored as they come");
  keys["reward_model.use_reward_loop"] = gone("responses are scored as they come");
  for (const std::string name :
       {"forward_max_token_len_per_gpu", "load_weight", "max_length", "megatron",
        "micro_batch_size", "micro_batch_size_per_gpu", "nccl_timeout", "param_offload", "strategy",
        "use_dynamic_bsz", "model.input_tokenizer", "model.override_config"}) {
    keys["reward_model." + name] =
        gone("a reward model is an inference server, reward.reward_model");
  }
}

void add_trainer(config::OldKeys& keys) {
  const std::string nsys = "global_profiler.global_tool_config.nsys.";
  for (const std::string name : {"controller_nsight_options", "worker_nsight_options"}) {
    keys["trainer." + name] = now(nsys + name);
  }
  keys["trainer.npu_profile"] = now("actor_rollout_ref.actor.profiler.tool_config.npu");
  keys["trainer.profile_steps"] = now("global_profiler.steps");
  keys["trainer.profile_continuous_steps"] = now("global_profiler.profile_continuous_steps");
  keys["trainer.remove_previous_ckpt_in_save"] = now("trainer.max_actor_ckpt_to_keep");
  keys["trainer.val_generations_to_log_to_wandb"] = now("trainer.log_val_generations");
  keys["trainer.use_legacy_worker_impl"] = gone("there is one implementation of workers");
  keys["data.datagen"] = gone("rows are read from data.train_files");
  keys["data.sampler"] = gone("data.shuffle and data.seed set the order of prompts");
  const std::string asynchronous = "is of verl's asynchronous trainers, which are not implemented";
  for (const std::string name : {"nnodes", "n_gpus_per_node", "total_rollout_steps"}) {
    keys["rollout." + name] = asynchronous;
  }
  keys["async_training"] = asynchronous;
  keys["data.continuous_token"] = "is of other releases than the one followed here";
  keys["ray_init"] = now("ray_kwargs.ray_init");
  keys["ray_init.timeline_json_file"] = now("ray_kwargs.timeline_json_file");
}

}  // namespace

const config::OldKeys& old_keys() {
  static const config::OldKeys keys = [] {
    config::OldKeys all;
    add_roles(all);
    add_rollout(all);
    add_algorithm(all);
    add_rewards(all);
    add_trainer(all);
    return all;
  }();
  return keys;
}

}  // namespace verlcpp::train
