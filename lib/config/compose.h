#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "config/tree.h"

namespace verlcpp::config {

/// One place YAML files come from: a folder on disk or the tree embedded in the executable.
struct SearchPath {
  std::string label;  // how origins begin: "conf" -> "conf/actor/actor.yaml:3"
  /// Text of "group/name.yaml", or nothing.
  std::function<std::optional<std::string>(const std::string& relative_path)> read;
};

/// A folder on disk.
SearchPath folder(const std::string& path);

struct ComposeRequest {
  std::vector<SearchPath> search_path;  // first match wins
  std::string config_name;              // with or without ".yaml"
  std::vector<std::string> overrides;   // Hydra grammar, in order; the last one wins
};

struct Composed {
  Node tree;  // interpolations still unresolved
};

/// Hydra's composition: defaults lists (nested, `group@package: name`, `../group`, `override`,
/// `_self_`, interpolated choices, `# @package _global_`), group choices and value overrides.
/// Throws ConfigError; a syntax error names the override's number and column, an unknown key the
/// nearest one and `+`.
Composed compose(const ComposeRequest& request);

/// Replaces every interpolation by its value: `${a.b}`, `${.x}`, `${oc.select:a.b,default}`
/// (nested, relative, whole sub-trees; string pieces). A resolved value keeps the origin of what it
/// resolved to. Throws ConfigError naming the key for a missing target or a cycle.
Node resolve(const Node& tree);

}  // namespace verlcpp::config
