#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "config/tree.h"
#include "train/engine.h"

namespace verlcpp::train {

/// A JSON array of sequence lengths. DataError names the flag, the file and the element.
std::vector<int64_t> read_lengths(const std::string& flag, const std::string& file);

/// The actor's batching rule from a resolved tree, reading (and checking) nothing but the keys it
/// needs: a plan can be printed without a model or data. Throws ConfigError with every problem.
BatchingRule plan_rule(const config::Node& resolved_tree);

enum class PlanFormat { kText, kJson };
/// The plan of the lengths in `file`, ready to print. DataError when the batch is refused.
std::string plan_report(const config::Node& resolved_tree, const std::string& file,
                        PlanFormat format);

}  // namespace verlcpp::train
