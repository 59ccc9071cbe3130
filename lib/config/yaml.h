#pragma once

#include <string>

#include "config/tree.h"

namespace verlcpp::config {

/// Reads one YAML document with OmegaConf's scalar rules, anchors and merge keys; an empty text is
/// an empty map. A key that is a number or a bool is named as Python prints it. `file`
/// begins every origin ("conf/x.yaml:12") and error ("conf/x.yaml:12:3: ..."). Throws ConfigError
/// for bad syntax, a repeated key, an unknown tag or aliases that make the tree too large.
Node parse_yaml(const std::string& text, const std::string& file,
                Origin::Source source = Origin::Source::kFile);

}  // namespace verlcpp::config
