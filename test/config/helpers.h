#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/error.h"
#include "config/compose.h"
#include "config/yaml.h"

namespace verlcpp::config {

/// The message of the ConfigError that `call` must throw.
template <class Call>
std::string config_error(Call call) {
  try {
    call();
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "(no ConfigError)";
}

inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

using Files = std::map<std::string, std::string>;

/// Composes "main.yaml" out of files in memory.
inline Node composed(const Files& files, const std::vector<std::string>& overrides = {}) {
  return compose({{in_memory("conf", files)}, "main", overrides}).tree;
}

inline std::string tree_text(const Files& files, const std::vector<std::string>& overrides = {}) {
  return to_inline(composed(files, overrides));
}

inline std::string compose_error(const Files& files,
                                 const std::vector<std::string>& overrides = {}) {
  return config_error([&] { composed(files, overrides); });
}

inline Node resolved(const std::string& yaml) { return resolve(parse_yaml(yaml, "x.yaml")); }

}  // namespace verlcpp::config
