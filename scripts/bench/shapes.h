#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/model_config.h"

namespace verlcpp::bench {

/// Qwen2.5's shapes: 0.5B, 1.5B, 7B-slice (the 7B with 8 of its layers); tiny is for tests.
std::vector<std::string> model_names();
model::ModelConfig model_named(const std::string& name);

/// Documents of one packed batch: a preset (LN20, lognormal36, or COUNTxLENGTH like 16x2048),
/// lengths separated by commas, or a file with a JSON array of lengths. ConfigError for anything
/// else.
std::vector<int64_t> lengths_of(const std::string& text);

}  // namespace verlcpp::bench
