#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "config/tree.h"
#include "train/cost_file.h"
#include "train/reward_config.h"

// The typed configuration: one struct per block of verl's tree, with verl's keys. Each struct lists
// its fields once, in `fields`. Defaults live in conf/, not here.

namespace verlcpp::train {

/// The largest parallel size, above any cluster: keeps a product of three inside 64 bits.
inline constexpr int64_t kMaxAxis = 1 << 20;
/// The largest world, batch, length or token budget: keeps a product of two inside 64 bits.
inline constexpr int64_t kMaxCount = 1 << 30;

struct DataConfig {
  std::vector<std::string> train_files;
  std::optional<std::vector<std::string>> val_files;
  int64_t train_max_samples = -1, val_max_samples = -1;
  std::string prompt_key, reward_fn_key;
  config::Node apply_chat_template_kwargs;  // a map: variables of the chat template
  std::optional<std::string> tool_config_path, function_tool_path;
  int64_t max_prompt_length = 0, max_response_length = 0;
  int64_t train_batch_size = 0;
  std::optional<int64_t> val_batch_size;         // prompts of a validation at a time; null: all
  std::optional<int64_t> max_token_len_per_gpu;  // ours: one place for the per-GPU token budget
  bool shuffle = true;
  bool validation_shuffle = false;  // without effect: the order of prompts changes no result
  std::optional<int64_t> seed;
  bool filter_overlong_prompts = false;
  int64_t filter_overlong_prompts_workers = 1;  // verl's processes; one thread does it here
  int64_t dataloader_num_workers = 8;           // likewise
  std::string truncation;
  template <class V>
  void fields(V& v) {
    v("train_files", train_files);
    v("val_files", val_files);
    v("train_max_samples", train_max_samples);
    v("val_max_samples", val_max_samples);
    v("prompt_key", prompt_key);
    v("reward_fn_key", reward_fn_key);
    v("apply_chat_template_kwargs", apply_chat_template_kwargs);
    v("tool_config_path", tool_config_path);
    v("function_tool_path", function_tool_path);
    v("max_prompt_length", max_prompt_length);
    v("max_response_length", max_response_length);
    v("train_batch_size", train_batch_size);
    v("val_batch_size", val_batch_size);
    v("max_token_len_per_gpu", max_token_len_per_gpu);
    v("shuffle", shuffle);
    v("validation_shuffle", validation_shuffle);
    v("seed", seed);
    v("filter_overlong_prompts", filter_overlong_prompts);
    v("filter_overlong_prompts_workers", filter_overlong_prompts_workers);
    v("dataloader_num_workers", dataloader_num_workers);
    v("truncation", truncation);
  }
};

struct ModelSection {
  std::string path;
  config::Node override_config;
  std::optional<std::string> custom_chat_template;  // Jinja
  bool use_remove_padding = true;
  bool use_fused_kernels = false;
  bool random_init = false;  // ours: a folder without weights starts from random ones
  template <class V>
  void fields(V& v) {
    v("path", path);
    v("override_config", override_config);
    v("custom_chat_template", custom_chat_template);
    v("use_remove_padding", use_remove_padding);
    v("use_fused_kernels", use_fused_kernels);
    v("random_init", random_init);
  }
};

struct OptimConfig {
  std::string optimizer;
  double lr = 0, min_lr = 0;
  std::vector<double> betas;
  double weight_decay = 0, clip_grad = 0;
  int64_t total_training_steps = -1;
  std::optional<int64_t> lr_warmup_steps;  // null and what is not positive: the ratio's
  double lr_warmup_steps_ratio = 0, lr_warmup_init = 0;
  std::optional<int64_t> lr_decay_steps;
  std::string lr_decay_style;
  template <class V>
  void fields(V& v) {
    v("optimizer", optimizer);
    v("lr", lr);
    v("min_lr", min_lr);
    v("betas", betas);
    v("weight_decay", weight_decay);
    v("clip_grad", clip_grad);
    v("total_training_steps", total_training_steps);
    v("lr_warmup_steps", lr_warmup_steps);
    v("lr_warmup_steps_ratio", lr_warmup_steps_ratio);
    v("lr_warmup_init", lr_warmup_init);
    v("lr_decay_steps", lr_decay_steps);
    v("lr_decay_style", lr_decay_style);
  }
};

struct RouterReplayConfig {
  std::string mode;
  template <class V>
  void fields(V& v) {
    v("mode", mode);
  }
};

struct MegatronConfig {
  int64_t tensor_model_parallel_size = 1, pipeline_model_parallel_size = 1;
  std::optional<int64_t> virtual_pipeline_model_parallel_size;
  int64_t context_parallel_size = 1;
  bool sequence_parallel = true;  // only where tensor_model_parallel_size > 1
  bool use_distributed_optimizer = true;
  bool dynamic_context_parallel = false;
  config::Node max_seqlen_per_dp_cp_rank;  // any value; validate() checks and DcpSettings types it
  std::string dynamic_cp_scheduler;        // default or balanced
  std::optional<std::string> dynamic_cp_cost_model;  // a file of --calibrate
  PassCosts costs = {};                              // what is in it: no key of its own
  int64_t seed = 42;
  std::string dtype;
  bool use_remove_padding = true, pad_to_length = false, forward_only = false;
  config::Node override_transformer_config;
  RouterReplayConfig router_replay;
  template <class V>
  void fields(V& v) {
    v("tensor_model_parallel_size", tensor_model_parallel_size);
    v("pipeline_model_parallel_size", pipeline_model_parallel_size);
    v("virtual_pipeline_model_parallel_size", virtual_pipeline_model_parallel_size);
    v("context_parallel_size", context_parallel_size);
    v("sequence_parallel", sequence_parallel);
    v("use_distributed_optimizer", use_distributed_optimizer);
    v("dynamic_context_parallel", dynamic_context_parallel);
    v("max_seqlen_per_dp_cp_rank", max_seqlen_per_dp_cp_rank);
    v("dynamic_cp_scheduler", dynamic_cp_scheduler);
    v("dynamic_cp_cost_model", dynamic_cp_cost_model);
    v("seed", seed);
    v("dtype", dtype);
    v("use_remove_padding", use_remove_padding);
    v("pad_to_length", pad_to_length);
    v("forward_only", forward_only);
    v("override_transformer_config", override_transformer_config);
    v("router_replay", router_replay);
  }
};

struct PolicyLossConfig {
  std::string loss_mode;
  template <class V>
  void fields(V& v) {
    v("loss_mode", loss_mode);
  }
};

struct CheckpointConfig {
  std::vector<std::string> save_contents, load_contents;
  template <class V>
  void fields(V& v) {
    v("save_contents", save_contents);
    v("load_contents", load_contents);
  }
};

struct ActorConfig {
  std::string strategy;
  int64_t rollout_n = 1;
  int64_t ppo_mini_batch_size = 0;
  std::optional<int64_t> ppo_micro_batch_size, ppo_micro_batch_size_per_gpu;
  bool use_dynamic_bsz = false;
  int64_t ppo_max_token_len_per_gpu = 0;
  int64_t ppo_epochs = 1;
  bool shuffle = false;
  int64_t data_loader_seed = 42;
  double clip_ratio = 0.2;
  std::optional<double> clip_ratio_low, clip_ratio_high;
  double clip_ratio_c = 3;
  std::string loss_agg_mode;
  std::optional<double> loss_scale_factor;
  double entropy_coeff = 0;
  bool calculate_entropy = false;
  bool use_kl_loss = false;
  double kl_loss_coef = 0;
  std::string kl_loss_type;
  PolicyLossConfig policy_loss;
  OptimConfig optim;
  CheckpointConfig checkpoint;
  MegatronConfig megatron;
  template <class V>
  void fields(V& v) {
    v("strategy", strategy);
    v("rollout_n", rollout_n);
    v("ppo_mini_batch_size", ppo_mini_batch_size);
    v("ppo_micro_batch_size", ppo_micro_batch_size);
    v("ppo_micro_batch_size_per_gpu", ppo_micro_batch_size_per_gpu);
    v("use_dynamic_bsz", use_dynamic_bsz);
    v("ppo_max_token_len_per_gpu", ppo_max_token_len_per_gpu);
    v("ppo_epochs", ppo_epochs);
    v("shuffle", shuffle);
    v("data_loader_seed", data_loader_seed);
    v("clip_ratio", clip_ratio);
    v("clip_ratio_low", clip_ratio_low);
    v("clip_ratio_high", clip_ratio_high);
    v("clip_ratio_c", clip_ratio_c);
    v("loss_agg_mode", loss_agg_mode);
    v("loss_scale_factor", loss_scale_factor);
    v("entropy_coeff", entropy_coeff);
    v("calculate_entropy", calculate_entropy);
    v("use_kl_loss", use_kl_loss);
    v("kl_loss_coef", kl_loss_coef);
    v("kl_loss_type", kl_loss_type);
    v("policy_loss", policy_loss);
    v("optim", optim);
    v("checkpoint", checkpoint);
    v("megatron", megatron);
  }
};

struct RefConfig {
  std::string strategy;
  std::optional<int64_t> log_prob_micro_batch_size, log_prob_micro_batch_size_per_gpu;
  bool log_prob_use_dynamic_bsz = false;
  int64_t log_prob_max_token_len_per_gpu = 0;
  MegatronConfig megatron;
  template <class V>
  void fields(V& v) {
    v("strategy", strategy);
    v("log_prob_micro_batch_size", log_prob_micro_batch_size);
    v("log_prob_micro_batch_size_per_gpu", log_prob_micro_batch_size_per_gpu);
    v("log_prob_use_dynamic_bsz", log_prob_use_dynamic_bsz);
    v("log_prob_max_token_len_per_gpu", log_prob_max_token_len_per_gpu);
    v("megatron", megatron);
  }
};

/// How validation responses are made.
struct ValKwargs {
  double temperature = 0;
  int64_t top_k = -1;
  double top_p = 1;
  int64_t n = 1;           // responses to each prompt
  bool do_sample = false;  // false: greedy
  template <class V>
  void fields(V& v) {
    v("temperature", temperature);
    v("top_k", top_k);
    v("top_p", top_p);
    v("n", n);
    v("do_sample", do_sample);
  }
};

/// Refused but for a tool_config_path, which data.tool_config_path follows.
struct MultiTurnConfig {
  bool enable = false;
  std::optional<std::string> tool_config_path, function_tool_path;
  template <class V>
  void fields(V& v) {
    v("enable", enable);
    v("tool_config_path", tool_config_path);
    v("function_tool_path", function_tool_path);
  }
};

struct RolloutConfig {
  std::string name, mode;
  double temperature = 1;
  int64_t top_k = -1;
  double top_p = 1;
  bool do_sample = true;
  int64_t n = 1;
  int64_t seed = 42;
  int64_t prompt_length = 0, response_length = 0;
  std::optional<int64_t> log_prob_micro_batch_size, log_prob_micro_batch_size_per_gpu;
  bool log_prob_use_dynamic_bsz = false;
  int64_t log_prob_max_token_len_per_gpu = 0;
  int64_t max_num_seqs = 256;
  bool full_determinism = false;
  int64_t tensor_model_parallel_size =
      2;                                // without effect: the rollout runs in the training layout
  double gpu_memory_utilization = 0.5;  // without effect, likewise
  bool ignore_eos = false;
  ValKwargs val_kwargs;
  MultiTurnConfig multi_turn;
  std::optional<std::string> record_path, replay_path;  // ours
  template <class V>
  void fields(V& v) {
    v("name", name);
    v("mode", mode);
    v("temperature", temperature);
    v("top_k", top_k);
    v("top_p", top_p);
    v("do_sample", do_sample);
    v("n", n);
    v("seed", seed);
    v("prompt_length", prompt_length);
    v("response_length", response_length);
    v("log_prob_micro_batch_size", log_prob_micro_batch_size);
    v("log_prob_micro_batch_size_per_gpu", log_prob_micro_batch_size_per_gpu);
    v("log_prob_use_dynamic_bsz", log_prob_use_dynamic_bsz);
    v("log_prob_max_token_len_per_gpu", log_prob_max_token_len_per_gpu);
    v("max_num_seqs", max_num_seqs);
    v("full_determinism", full_determinism);
    v("tensor_model_parallel_size", tensor_model_parallel_size);
    v("gpu_memory_utilization", gpu_memory_utilization);
    v("ignore_eos", ignore_eos);
    v("val_kwargs", val_kwargs);
    v("multi_turn", multi_turn);
    v("record_path", record_path);
    v("replay_path", replay_path);
  }
};

struct ActorRolloutRefConfig {
  ModelSection model;
  ActorConfig actor;
  RefConfig ref;
  RolloutConfig rollout;
  int64_t nccl_timeout = 600;
  template <class V>
  void fields(V& v) {
    v("model", model);
    v("actor", actor);
    v("ref", ref);
    v("rollout", rollout);
    v("nccl_timeout", nccl_timeout);
  }
};

struct KlCtrlConfig {
  std::string type;
  double kl_coef = 0, horizon = 0, target_kl = 0;
  template <class V>
  void fields(V& v) {
    v("type", type);
    v("kl_coef", kl_coef);
    v("horizon", horizon);
    v("target_kl", target_kl);
  }
};

struct AlgorithmConfig {
  std::string adv_estimator;
  double gamma = 1, lam = 1;
  bool norm_adv_by_std_in_grpo = true;
  bool use_kl_in_reward = false;
  std::string kl_penalty;
  KlCtrlConfig kl_ctrl;
  template <class V>
  void fields(V& v) {
    v("adv_estimator", adv_estimator);
    v("gamma", gamma);
    v("lam", lam);
    v("norm_adv_by_std_in_grpo", norm_adv_by_std_in_grpo);
    v("use_kl_in_reward", use_kl_in_reward);
    v("kl_penalty", kl_penalty);
    v("kl_ctrl", kl_ctrl);
  }
};

struct CriticConfig {
  std::optional<bool> enable;
  template <class V>
  void fields(V& v) {
    v("enable", enable);
  }
};

struct DistillationConfig {
  bool enabled = false;
  template <class V>
  void fields(V& v) {
    v("enabled", enabled);
  }
};

struct TrainerConfig {
  int64_t total_epochs = 0;
  std::optional<int64_t> total_training_steps;
  std::string project_name, experiment_name;
  std::vector<std::string> logger;
  int64_t nnodes = 1, n_gpus_per_node = 1;
  int64_t ranks_per_gpu = 1;  // ours
  int64_t save_freq = -1;
  int64_t test_freq = -1;  // steps between validations; none where it is not positive
  bool val_before_train = true, val_only = false;
  std::optional<std::string> rollout_data_dir, validation_data_dir;
  std::string resume_mode;
  std::optional<std::string> resume_from_path;
  std::string default_local_dir;
  std::optional<int64_t> max_actor_ckpt_to_keep;
  std::string device;
  template <class V>
  void fields(V& v) {
    v("total_epochs", total_epochs);
    v("total_training_steps", total_training_steps);
    v("project_name", project_name);
    v("experiment_name", experiment_name);
    v("logger", logger);
    v("nnodes", nnodes);
    v("n_gpus_per_node", n_gpus_per_node);
    v("ranks_per_gpu", ranks_per_gpu);
    v("save_freq", save_freq);
    v("test_freq", test_freq);
    v("val_before_train", val_before_train);
    v("val_only", val_only);
    v("rollout_data_dir", rollout_data_dir);
    v("validation_data_dir", validation_data_dir);
    v("resume_mode", resume_mode);
    v("resume_from_path", resume_from_path);
    v("default_local_dir", default_local_dir);
    v("max_actor_ckpt_to_keep", max_actor_ckpt_to_keep);
    v("device", device);
  }

  /// Whether the run saves by the way; a stop may save besides.
  bool saves() const { return save_freq > 0 && !val_only; }
};

struct TrainConfig {
  std::string model_engine;
  DataConfig data;
  ActorRolloutRefConfig actor_rollout_ref;
  AlgorithmConfig algorithm;
  CriticConfig critic;
  RewardConfig reward;
  DistillationConfig distillation;
  TrainerConfig trainer;
  template <class V>
  void fields(V& v) {
    v("model_engine", model_engine);
    v("data", data);
    v("actor_rollout_ref", actor_rollout_ref);
    v("algorithm", algorithm);
    v("critic", critic);
    v("reward", reward);
    v("distillation", distillation);
    v("trainer", trainer);
  }

  /// 0 when a factor is not between 1 and kMaxAxis.
  int64_t world_size() const {
    const auto valid = [](int64_t factor) { return factor >= 1 && factor <= kMaxAxis; };
    if (!valid(trainer.nnodes) || !valid(trainer.n_gpus_per_node) || !valid(trainer.ranks_per_gpu))
      return 0;
    return trainer.nnodes * trainer.n_gpus_per_node * trainer.ranks_per_gpu;
  }
  /// verl: the reference model exists iff one of the two KL terms is on.
  bool uses_reference() const {
    return algorithm.use_kl_in_reward || actor_rollout_ref.actor.use_kl_loss;
  }
};

/// True for a value that no user touched: its origin is a file of the shipped tree ("conf/...").
bool is_shipped(const config::Origin& origin);

/// data.max_token_len_per_gpu feeds the actor's, the reference's and the rollout's log-prob budget
/// where nobody set them. Changes the tree, so that it prints what is used. The tree may still hold
/// interpolations: those that lead to a budget somebody set stay as they are.
void apply_token_budget(config::Node& tree);

/// Binds a resolved tree; applies data.max_token_len_per_gpu to the budgets nobody set (their
/// origin is still a shipped file). Throws ConfigError with every unknown key, missing key and
/// wrong type.
/// What is said of keys of `tree` that neither we nor verl know.
std::vector<std::string> unknown_keys(const config::Node& tree);
TrainConfig bind_train_config(config::Node& resolved_tree);

/// The value of a key of override_transformer_config; null when absent or null there.
/// The names below override_transformer_config that something reads.
const std::vector<std::string>& read_transformer_overrides();
const config::Node* transformer_override(const MegatronConfig& megatron, const std::string& name);

inline constexpr const char* kDefaultScheduler = "default";    // Megatron-Core's
inline constexpr const char* kBalancedScheduler = "balanced";  // by the cost model

/// Where sequences may go: max_seqlen_per_dp_cp_rank and the smallest group, typed (after
/// validate).
struct DcpSettings {
  int64_t max_seqlen_per_rank = 0;
  int64_t min_cp = 1;
  bool balanced = false;
};
/// Empty when dynamic_context_parallel is off.
std::optional<DcpSettings> dcp_settings(const MegatronConfig& megatron);

/// Whether a run is to repeat bit for bit: verl's rollout.full_determinism, or Megatron's
/// deterministic_mode among the actor's or the reference's transformer overrides (after validate).
bool deterministic(const TrainConfig& config);

}  // namespace verlcpp::train
