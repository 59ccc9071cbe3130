#pragma once

#include <optional>
#include <string>

#include "config/tree.h"

// Parts of resolve() (config/compose.h) for a tree that is still being composed. All throw
// ConfigError for an interpolation that leads nowhere.

namespace verlcpp::config {

/// `node` with every interpolation in it replaced, as if it stood at the root of `tree`.
Node resolve_in(const Node& tree, const Node& node);

/// The value at a dotted path, which may lead through interpolations and end at one; what is inside
/// it stays as written. Nothing where there is no such key.
std::optional<Node> select(const Node& tree, const std::string& path);

}  // namespace verlcpp::config
