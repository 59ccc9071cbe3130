#pragma once

#include <optional>
#include <string>

#include "config/compose.h"
#include "config/tree.h"

// Parts of resolve() (config/compose.h) for a tree that is still being composed. All throw
// ConfigError for an interpolation that leads nowhere.

namespace verlcpp::config {

/// `node` with every interpolation in it replaced, as if it stood at the dotted `path` in `tree`.
Node resolve_in(const Node& tree, const Node& node, const std::string& path,
                const RunFacts& run = {});

/// The value at a dotted path, which may lead through interpolations and end at one; what is inside
/// it stays as written. Nothing where there is no such key.
std::optional<Node> select(const Node& tree, const std::string& path);

/// The key that an interpolation leads to: `a.b` of `${a.b}` and of `${oc.select:a.b,1}`. Nothing
/// for a text with pieces, a relative key and other resolvers.
std::optional<std::string> followed_key(const Interpolation& interpolation);

}  // namespace verlcpp::config
