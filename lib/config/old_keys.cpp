#include "config/old_keys.h"

namespace verlcpp::config {

std::string about_old_key(const OldKeys& old_keys, const std::string& key) {
  for (size_t end = key.size(); end != std::string::npos && end > 0;
       end = key.rfind('.', end - 1)) {
    const std::string group = key.substr(0, end);
    const auto found = old_keys.find(group);
    if (found != old_keys.end()) return "; " + group + " " + found->second;
  }
  return "";
}

}  // namespace verlcpp::config
