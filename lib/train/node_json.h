#pragma once

#include <string>

#include "config/tree.h"

namespace verlcpp::train {

/// A resolved part of the tree as JSON text.
std::string json_text(const config::Node& node);

}  // namespace verlcpp::train
