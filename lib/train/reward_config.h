#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "config/tree.h"
#include "reward/manager.h"

namespace verlcpp::train {

struct CustomRewardFunctionConfig {
  std::optional<std::string> path;
  std::string name;
  config::Node reward_kwargs;
  double timeout_s = 0;    // ours
  std::string on_failure;  // ours: stop or zero
  template <class V>
  void fields(V& v) {
    v("path", path);
    v("name", name);
    v("reward_kwargs", reward_kwargs);
    v("timeout_s", timeout_s);
    v("on_failure", on_failure);
  }
};

struct RewardModuleConfig {
  std::optional<std::string> path;
  std::string name;
  template <class V>
  void fields(V& v) {
    v("path", path);
    v("name", name);
  }
};

struct RewardManagerConfig {
  std::string source, name;
  RewardModuleConfig module;  // of source importlib, which is refused
  template <class V>
  void fields(V& v) {
    v("source", source);
    v("name", name);
    v("module", module);
  }
};

struct RewardModelConfig {
  bool enable = false;
  template <class V>
  void fields(V& v) {
    v("enable", enable);
  }
};

struct SandboxFusionConfig {
  std::optional<std::string> url;
  template <class V>
  void fields(V& v) {
    v("url", url);
  }
};

struct RewardConfig {
  int64_t num_workers = 8;  // without effect
  CustomRewardFunctionConfig custom_reward_function;
  RewardManagerConfig reward_manager;
  config::Node reward_kwargs;  // overlong_settings types it
  std::string gsm8k_method;    // ours
  RewardModelConfig reward_model;
  SandboxFusionConfig sandbox_fusion;
  template <class V>
  void fields(V& v) {
    v("num_workers", num_workers);
    v("custom_reward_function", custom_reward_function);
    v("reward_manager", reward_manager);
    v("reward_kwargs", reward_kwargs);
    v("gsm8k_method", gsm8k_method);
    v("reward_model", reward_model);
    v("sandbox_fusion", sandbox_fusion);
  }
};

/// The buffer that reward.reward_kwargs asks for: {overlong_buffer_cfg: {enable, len,
/// penalty_factor, log}, max_resp_len}; nothing unless it is enabled. ConfigError with every
/// unknown key, missing key and wrong type, and for lengths that verl refuses.
std::optional<reward::OverlongBuffer> overlong_settings(const config::Node& reward_kwargs);

/// What the manager is to do (after validate).
reward::ManagerOptions manager_options(const RewardConfig& config,
                                       const std::string& experiment_name);

}  // namespace verlcpp::train
