#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "config/tree.h"

namespace verlcpp::train {

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

}  // namespace verlcpp::train
