#pragma once

#include <string>

#include "config/compose.h"
#include "config/override.h"

namespace verlcpp::config {

/// Applies a value override; what it deletes is noted in `history`. Throws ConfigError, and leaves
/// the tree as it is, for one that does not fit; it names the key that was meant, or the override
/// before it that deleted the key.
void apply(Node& tree, const Override& item, const ComposeRequest& request, KeyHistory& history);

}  // namespace verlcpp::config
