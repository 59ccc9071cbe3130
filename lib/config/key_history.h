#pragma once

#include <map>
#include <string>

namespace verlcpp::config {

/// What a resolved tree no longer shows of the way it was made.
struct KeyHistory {
  /// Keys and groups that were not set as a whole again, with "~a.b (override 2)".
  std::map<std::string, std::string> deleted = {};
  /// Keys whose value was an interpolation: "${a.b} (override 1)", "" for those of shipped files.
  std::map<std::string, std::string> links = {};

  /// The key that was deleted: `key` itself or one above it; "" when none was.
  std::string deleted_at(const std::string& key) const;
  /// The override that did it, or "".
  std::string deleted_by(const std::string& key) const;
  /// Whether an interpolation stood at the key, or above it.
  bool follows(const std::string& key) const;
  /// The user's that stood there, or "".
  std::string link(const std::string& key) const;
};

}  // namespace verlcpp::config
