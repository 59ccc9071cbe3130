#include "config/defaults_entry.h"

#include <algorithm>
#include <sstream>
#include <vector>

#include "base/error.h"

namespace verlcpp::config {

std::string join_path(const std::string& folder, const std::string& path,
                      const std::string& origin) {
  std::vector<std::string> parts;
  std::istringstream names(path.starts_with("/") ? path : folder + "/" + path);
  std::string name;
  while (std::getline(names, name, '/')) {
    if (name.empty() || name == ".") continue;
    if (name != "..") {
      parts.push_back(name);
      continue;
    }
    if (parts.empty()) throw ConfigError(origin + ": " + path + " leads out of the search path");
    parts.pop_back();
  }
  std::string joined;
  for (const std::string& part : parts) joined += (joined.empty() ? "" : "/") + part;
  return joined;
}

std::string folder_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "" : path.substr(0, slash);
}

std::string dotted(std::string path) {
  std::replace(path.begin(), path.end(), '/', '.');
  return path;
}

std::string join_package(const std::string& parent, const std::string& package) {
  constexpr std::string_view kGlobal = "_global_";
  if (package.starts_with(kGlobal)) {
    return package.size() > kGlobal.size() ? package.substr(kGlobal.size() + 1) : "";
  }
  if (package == "_here_" || package.empty()) return parent;
  return parent.empty() ? package : parent + "." + package;
}

DefaultsEntry parse_defaults_entry(const Node& node) {
  DefaultsEntry entry;
  entry.origin = node.origin().text;
  const auto fail = [&](const std::string& message) {
    throw ConfigError(entry.origin + ": " + message + " in the defaults list: " + to_inline(node));
  };
  if (const auto* text = node.get_if<std::string>()) {
    entry.name = *text;
  } else if (const auto* interpolation = node.get_if<Interpolation>()) {
    entry.name = interpolation->text;
  } else if (node.is_map() && node.items().size() == 1) {
    const auto& [key, value] = node.items()[0];
    std::istringstream words(key);
    std::string word;
    while (words >> word) {
      if (word == "override") entry.is_override = true;
      if (word == "optional") entry.is_optional = true;
      entry.group = word;
    }
    if (const auto* name = value.get_if<std::string>()) {
      entry.name = *name;
    } else if (const auto* name = value.get_if<Interpolation>()) {
      entry.name = name->text;
    } else if (value.is_null()) {
      entry.name = "null";
    } else {
      fail("a group takes the name of one option");
    }
  } else {
    fail("expected a config name or group: name");
  }
  std::string& spot = entry.group.empty() ? entry.name : entry.group;
  const size_t at = spot.find('@');
  if (at != std::string::npos) {
    entry.package = spot.substr(at + 1);
    spot.resize(at);
  }
  if (spot.empty()) fail("a name is missing");
  return entry;
}

}  // namespace verlcpp::config
