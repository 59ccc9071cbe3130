#include "config/key_history.h"

namespace verlcpp::config {

namespace {

/// The first of `key`, what it is in, what that is in and so on that is among `keys`, or "".
std::string at_or_above(const std::map<std::string, std::string>& keys, const std::string& key) {
  for (size_t end = key.size(); end != std::string::npos && end > 0;
       end = key.rfind('.', end - 1)) {
    if (keys.contains(key.substr(0, end))) return key.substr(0, end);
  }
  return "";
}

}  // namespace

std::string KeyHistory::deleted_at(const std::string& key) const {
  return at_or_above(deleted, key);
}

std::string KeyHistory::deleted_by(const std::string& key) const {
  const std::string at = deleted_at(key);
  return at.empty() ? "" : deleted.at(at);
}

std::string KeyHistory::link(const std::string& key) const {
  const std::string at = at_or_above(links, key);
  return at.empty() ? "" : links.at(at);
}

bool KeyHistory::follows(const std::string& key) const { return !at_or_above(links, key).empty(); }

}  // namespace verlcpp::config
