#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "config/tree.h"
#include "train/train_config.h"

namespace verlcpp::train {

struct CheckOptions {
  std::string folder;  // of place_outputs()
  bool dry_run = false;
  std::optional<int64_t> assumed_response_length = {};  // of a dry run
};

struct CheckedConfig {
  TrainConfig config;
  std::vector<std::string> warnings;
  std::vector<std::string> limits;  // what keeps this build from running it; none but in a dry run
};

/// bind_train_config(), place_outputs() and validate() in one, so that all that is wrong is said
/// together. Where values cannot be read, the others are checked beside the shipped ones, and what
/// this finds about a key that cannot be read is left out.
CheckedConfig checked_config(config::Node& resolved_tree, const CheckOptions& options);

}  // namespace verlcpp::train
