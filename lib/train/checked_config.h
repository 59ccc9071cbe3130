#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "config/problems.h"
#include "config/tree.h"
#include "train/train_config.h"

namespace verlcpp::train {

struct CheckOptions {
  std::string folder;  // of place_outputs()
  bool dry_run = false;
  std::optional<int64_t> assumed_response_length = {};  // of a dry run
  /// What compose() and resolve() found: overrides that are left out of the tree, and keys whose
  /// interpolations lead nowhere.
  config::KeyProblems overrides = {}, interpolations = {};
  config::KeyHistory history = {};  // of the tree
};

struct CheckedConfig {
  TrainConfig config;
  std::vector<std::string> warnings;
  std::vector<std::string> limits;  // what keeps this build from running it; none but in a dry run
};

/// bind_train_config(), place_outputs() and validate() in one, so that all that is wrong is said
/// together, in one ConfigError. Keys that cannot be read, and those that hold the same value from
/// the same place, since they follow them, are checked with the shipped values in their place; what
/// this finds that may be there by them, or by an override that was left out, is not said.
CheckedConfig checked_config(config::Node& resolved_tree, const CheckOptions& options);

/// The part of it for a tree with something wrong: a ConfigError, unless all that is wrong has been
/// left out of `options` and only its keys are there.
void report_problems(const config::Node& resolved_tree, const CheckOptions& options);

}  // namespace verlcpp::train
