#pragma once

#include <string>
#include <vector>

#include "config/tree.h"
#include "train/train_config.h"

namespace verlcpp::test {

/// A configuration composed from the embedded tree.
struct Configured {
  config::Node tree;
  train::TrainConfig config;
};

/// Overrides of a small valid GRPO run on eight CPU ranks (CP 4, micro-batches of one) over a
/// reference model folder.
std::vector<std::string> valid_run();
/// The same with dynamic CP and a limit of 128 tokens per rank.
std::vector<std::string> valid_dynamic_run();
/// `base` with more overrides behind it.
Configured configured(std::vector<std::string> base, const std::vector<std::string>& more = {});

}  // namespace verlcpp::test
