#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "config/tree.h"
#include "train/megatron_config.h"

namespace verlcpp::train {

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

}  // namespace verlcpp::train
