#pragma once

#include <map>
#include <string>

namespace verlcpp::config {

/// Keys, or groups of them, that older releases had, and what to say about each: "is now a.b".
using OldKeys = std::map<std::string, std::string>;

/// "; KEY TEXT" for `key` or the nearest group above it; "" when there is none.
std::string about_old_key(const OldKeys& old_keys, const std::string& key);

}  // namespace verlcpp::config
