#pragma once

#include <string>

#include "config/tree.h"

namespace verlcpp::config {

/// Reads one YAML document with OmegaConf's scalar rules; an empty text is an empty map. `file`
/// begins every origin ("conf/x.yaml:12") and error ("conf/x.yaml:12:3: ..."). Throws ConfigError
/// for bad syntax, a repeated key, an unknown tag or a merge key.
Node parse_yaml(const std::string& text, const std::string& file);

}  // namespace verlcpp::config
