#pragma once

#include <optional>
#include <string>

#include "config/tree.h"

namespace verlcpp::config {

/// One parsed command-line override.
struct Override {
  enum class Kind {
    kSet,     // key=value: the key exists
    kAdd,     // +key=value: the key does not exist
    kForce,   // ++key=value: either
    kDelete,  // ~key, ~key=value: removes it (if it has that value)
  };
  Kind kind = Kind::kSet;
  std::string key;                     // "a.b", or a config group "a/b"
  std::optional<std::string> package;  // after `@`, for a config group; "" is the root
  std::optional<Node> value;           // nothing only for `~key`; its origin is "override N"
  std::string text;                    // as typed
  int number = 0;                      // 1-based

  /// `group` or `group@package`.
  std::string name() const { return package ? key + "@" + *package : key; }
  std::string origin() const { return "override " + std::to_string(number); }
};

/// Hydra's override grammar (version 1.3) without sweeps. Beyond Hydra an unquoted text may hold
/// any character but `,()[]{}'"=`, and a key of a {map} may be quoted; a key of a {map} that comes
/// twice is an error. Throws ConfigError with the override's number, column (1-
/// based) and text.
Override parse_override(const std::string& text, int number);

}  // namespace verlcpp::config
