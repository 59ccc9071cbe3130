#pragma once

#include <string>

#include "config/tree.h"

namespace verlcpp::config {

/// Replaces an interpolation at `path` of `tree` that leads to a map or a list by a copy of that.
/// One that leads nowhere yet stays.
void follow(const Node& tree, const std::string& path, Node& node);

/// Merges `over` on top of `under`, which stands at `path` in `tree`, as OmegaConf does: `???`
/// replaces nothing, and an interpolation below it becomes a copy of the map or list it leads to.
/// Returns what cannot be merged, or "".
std::string merge(const Node& tree, const std::string& path, const Node& over, Node& under);

}  // namespace verlcpp::config
