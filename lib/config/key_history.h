#pragma once

#include <map>
#include <set>
#include <string>

namespace verlcpp::config {

/// What a resolved tree no longer shows of the way it was made.
struct KeyHistory {
  std::map<std::string, std::string> deleted = {};  // keys and groups, with "~a.b (override 2)"
  std::set<std::string> links = {};                 // keys whose value was an interpolation

  /// The key that was deleted: `key` itself or one above it; "" when none was.
  std::string deleted_at(const std::string& key) const;
  /// The override that did it, or "".
  std::string deleted_by(const std::string& key) const;
  /// Whether an interpolation stood at the key, or above it.
  bool follows(const std::string& key) const;
};

}  // namespace verlcpp::config
