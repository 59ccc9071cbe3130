#pragma once

#include <string>

#include "config/compose.h"
#include "config/override.h"

namespace verlcpp::config {

/// Applies a value override; what it deletes is noted in `history`. Throws ConfigError for one that
/// does not fit, which names the key that was meant, or the override before it that deleted the
/// key. Of a map that cannot be merged as a whole, what was merged before stays.
void apply(Node& tree, const Override& item, const ComposeRequest& request, KeyHistory& history);

}  // namespace verlcpp::config
