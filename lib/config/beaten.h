#pragma once

#include <string>
#include <vector>

#include "config/override.h"

namespace verlcpp::config {

/// One line for every override whose value a later one replaces or deletes as a whole:
/// "a.b=1 (override 1) has no effect: a.b=2 (override 3) comes later". Nothing where both say the
/// same; a map, which merges, beats what it holds itself.
std::vector<std::string> beaten_overrides(const std::vector<Override>& overrides);

}  // namespace verlcpp::config
