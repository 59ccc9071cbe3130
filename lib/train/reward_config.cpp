#include "train/reward_config.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

#include "config/bind.h"
#include "train/node_json.h"

namespace verlcpp::train {
namespace {

struct OverlongBufferConfig {
  bool enable = false;
  int64_t len = 0;
  double penalty_factor = 0;
  bool log = false;
  template <class V>
  void fields(V& v) {
    v("enable", enable);
    v("len", len);
    v("penalty_factor", penalty_factor);
    v("log", log);
  }
};

struct RewardKwargs {
  std::optional<int64_t> max_resp_len;
  config::Node overlong_buffer_cfg;  // null, or a Holder's
  template <class V>
  void fields(V& v) {
    v("max_resp_len", max_resp_len);
    v("overlong_buffer_cfg", overlong_buffer_cfg);
  }
};

/// So that messages name the whole key.
struct Holder {
  OverlongBufferConfig overlong_buffer_cfg;
  template <class V>
  void fields(V& v) {
    v("overlong_buffer_cfg", overlong_buffer_cfg);
  }
};

constexpr const char* kKwargs = "reward.reward_kwargs";

void set_if_missing(config::Node& map, const std::string& key, config::Node value) {
  if (map.is_map() && map.find(key) == nullptr) map.set(key, std::move(value));
}

bool is_enabled(const config::Node& buffer) {
  const config::Node* enable = buffer.is_map() ? buffer.find("enable") : nullptr;
  const bool* value = enable == nullptr ? nullptr : enable->get_if<bool>();
  return value != nullptr && *value;
}

/// An enabled buffer names the lengths and the penalty itself; everything that lacks, in one go.
void require_lengths(const config::Node& whole) {
  const config::Node* buffer = whole.find("overlong_buffer_cfg");
  if (buffer == nullptr || !is_enabled(*buffer)) return;
  std::string missing;
  const auto require = [&](const std::string& key, const std::string& what) {
    const config::Node* value = whole.find(key);
    if (value != nullptr && !value->is_null()) return;
    missing += std::string(missing.empty() ? "" : ", ") + "+" + kKwargs + "." + key + "=" + what;
  };
  require("max_resp_len", "INTEGER (the longest response, data.max_response_length)");
  require("overlong_buffer_cfg.len", "INTEGER (the tokens before that which are penalized)");
  require("overlong_buffer_cfg.penalty_factor",
          "NUMBER (the penalty at max_resp_len, such as 1.0)");
  if (missing.empty()) return;
  throw ConfigError(std::string(kKwargs) + ".overlong_buffer_cfg.enable = True (" +
                    buffer->find("enable")->origin().text + ") also needs " + missing);
}

/// Most keys may be missing: verl's dapo manager looks them up one by one.
std::pair<RewardKwargs, std::optional<OverlongBufferConfig>> bind_kwargs(
    const config::Node& reward_kwargs) {
  config::Node whole = reward_kwargs.is_null() ? config::Node::map({}) : reward_kwargs;
  if (!whole.is_map()) throw ConfigError(std::string(kKwargs) + " must be a map of keys");
  require_lengths(whole);
  set_if_missing(whole, "max_resp_len", config::Node());
  set_if_missing(whole, "overlong_buffer_cfg", config::Node());
  RewardKwargs kwargs;
  std::optional<OverlongBufferConfig> buffer;
  config::Binder binder;
  binder.bind(whole, kKwargs, kwargs);
  if (!kwargs.overlong_buffer_cfg.is_null()) {
    set_if_missing(kwargs.overlong_buffer_cfg, "log", config::Node(false));
    if (!is_enabled(kwargs.overlong_buffer_cfg)) {  // then nobody looks at the rest
      set_if_missing(kwargs.overlong_buffer_cfg, "len", config::Node(int64_t{0}));
      set_if_missing(kwargs.overlong_buffer_cfg, "penalty_factor", config::Node(1.0));
    }
    Holder holder;
    binder.bind(config::Node::map({{"overlong_buffer_cfg", kwargs.overlong_buffer_cfg}}), kKwargs,
                holder);
    buffer = holder.overlong_buffer_cfg;
  }
  std::string problems;
  for (const std::string& problem : binder.problems()) {
    problems += (problems.empty() ? "" : "; ") + problem;
  }
  if (!problems.empty()) throw ConfigError(problems);
  return {kwargs, buffer};
}

std::string about(const config::Node& kwargs, const std::string& key) {
  const config::Node& value = *kwargs.find(key);
  return std::string(kKwargs) + "." + key + " = " + config::to_inline(value) + " (" +
         value.origin().text + ")";
}

}  // namespace

std::optional<reward::OverlongBuffer> overlong_settings(const config::Node& reward_kwargs) {
  const auto [kwargs, given] = bind_kwargs(reward_kwargs);
  if (!given || !given->enable) return {};
  const OverlongBufferConfig& buffer = *given;
  const auto refuse = [&](const std::string& key, const std::string& text) {
    throw ConfigError(about(reward_kwargs, key) + ": " + text);
  };
  const std::string len_key = "overlong_buffer_cfg.len",
                    factor_key = "overlong_buffer_cfg.penalty_factor";
  if (buffer.len <= 0) {
    refuse(len_key,
           "must be positive when the penalty is enabled; to disable it, set "
           "overlong_buffer_cfg.enable=False");
  }
  if (*kwargs.max_resp_len < buffer.len) {
    refuse("max_resp_len", "must not be less than " + about(reward_kwargs, len_key));
  }
  if (!std::isfinite(buffer.penalty_factor)) refuse(factor_key, "must be finite");
  return reward::OverlongBuffer{.max_resp_len = *kwargs.max_resp_len,
                                .len = buffer.len,
                                .penalty_factor = buffer.penalty_factor,
                                .log = buffer.log};
}

reward::ManagerOptions manager_options(const RewardConfig& config,
                                       const std::string& experiment_name) {
  using reward::ManagerKind;
  reward::ManagerOptions options;
  const std::string& name = config.reward_manager.name;
  if (name == "dapo") options.kind = ManagerKind::kDapo;
  if (name == "gdpo") options.kind = ManagerKind::kGdpo;
  if (name == "dapo") options.overlong = overlong_settings(config.reward_kwargs);
  if (config.gsm8k_method == "flexible") options.gsm8k = reward::Gsm8kMethod::kFlexible;
  options.experiment_name = experiment_name;
  const CustomRewardFunctionConfig& custom = config.custom_reward_function;
  if (custom.path) {
    const bool none = custom.reward_kwargs.is_null();
    const std::chrono::milliseconds timeout(std::llround(custom.timeout_s * 1000));
    options.program = reward::ProgramOptions{
        .path = data::expand_home(*custom.path),
        .name = custom.name,
        .reward_kwargs = none ? "{}" : json_text(custom.reward_kwargs),
        .timeout = timeout,
        .load_timeout = std::max<std::chrono::milliseconds>(timeout, std::chrono::seconds(60)),
        .zero_on_failure = custom.on_failure == "zero"};
  }
  return options;
}

}  // namespace verlcpp::train
