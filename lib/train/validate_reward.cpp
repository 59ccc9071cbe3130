#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <string>

#include "base/error.h"
#include "train/validate_checks.h"

namespace verlcpp::train {
namespace {

void check_manager(const RewardConfig& reward, Findings& findings) {
  const std::string key = "reward.reward_manager.";
  const std::string& name = reward.reward_manager.name;
  if (reward.reward_manager.source == "importlib") {
    findings.add(key + "source",
                 "a manager class of the user's is Python in verl's own process, which is not "
                 "here; must be register (reward.custom_reward_function.path runs a scorer)");
    return;
  }
  if (reward.reward_manager.source != "register") {
    findings.add(key + "source", "Unknown reward manager source; must be register");
    return;
  }
  const std::string valid = "; valid: naive, dapo, gdpo, remote";
  if (name == "remote") {
    findings.warn(findings.about(key + "name") +
                  ": as naive; a program of the user's is always a process of its own");
  } else if (name == "rate_limited") {
    findings.add(key + "name",
                 "it limits calls to a service, which a program of yours has to do itself" + valid);
  } else if (name == "prime" || name == "batch") {
    findings.add(key + "name", "verl's old manager, which its reward loop has no more" + valid);
  } else if (name != "naive" && name != "dapo" && name != "gdpo") {
    findings.add(key + "name", "Reward manager is not registered" + valid);
  }
  try {
    const bool penalty = overlong_settings(reward.reward_kwargs).has_value();
    if (penalty && name != "dapo") {
      findings.warn(findings.about(key + "name") +
                    ": reward.reward_kwargs.overlong_buffer_cfg is enabled and without effect; "
                    "only dapo reads it");
    }
  } catch (const ConfigError& e) {
    findings.add_text(e.what());
  }
}

/// A file that will be there on the machine that runs the job: this one.
void check_path(const std::string& given, Findings& findings) {
  const std::string key = "reward.custom_reward_function.path";
  if (given.starts_with("pkg://")) return;  // python3 knows
  const std::string file = given.starts_with("file://") ? given.substr(7) : given;
  const std::string path = data::expand_home(file);
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored)) {
    findings.add(key, "there is no such file");
  } else if (reward::is_python(given)) {
    findings.require(::access(path.c_str(), R_OK) == 0, key, "cannot be read");
  } else {
    findings.require(::access(path.c_str(), X_OK) == 0, key,
                     "must be a .py file or an executable one (chmod +x)");
  }
}

void check_custom(const CustomRewardFunctionConfig& custom, Findings& findings) {
  const std::string key = "reward.custom_reward_function.";
  constexpr double kLongest = 86400;
  findings.require(custom.timeout_s > 0 && custom.timeout_s <= kLongest, key + "timeout_s",
                   "must be above 0 and at most 86400 seconds");
  findings.require(custom.on_failure == "stop" || custom.on_failure == "zero", key + "on_failure",
                   "must be stop or zero");
  findings.require(custom.reward_kwargs.is_null() || custom.reward_kwargs.is_map(),
                   key + "reward_kwargs", "must be a map of keyword arguments");
  findings.require(!custom.name.empty(), key + "name", "must name a function");
  if (custom.path) check_path(*custom.path, findings);
}

}  // namespace

void check_reward(const TrainConfig& config, Findings& findings) {
  const RewardConfig& reward = config.reward;
  check_manager(reward, findings);
  check_custom(reward.custom_reward_function, findings);
  findings.require(reward.gsm8k_method == "strict" || reward.gsm8k_method == "flexible",
                   "reward.gsm8k_method", "must be strict or flexible");
  findings.require(
      !reward.reward_model.enable, "reward.reward_model.enable",
      "a reward model is not implemented; rules and programs score responses; must be False");
  findings.require(!reward.sandbox_fusion.url, "reward.sandbox_fusion.url",
                   "code is not run in a sandbox here; a program of yours "
                   "(reward.custom_reward_function.path) can");
}

}  // namespace verlcpp::train
