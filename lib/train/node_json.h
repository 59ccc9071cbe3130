#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "config/tree.h"

namespace verlcpp::train {

/// A resolved part of the tree as JSON, and as its text.
nlohmann::ordered_json to_json(const config::Node& node);
std::string json_text(const config::Node& node);

}  // namespace verlcpp::train
