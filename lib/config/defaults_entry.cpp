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
  if (package == "_here_" || package.empty()) return parent;
  const std::string joined = parent.empty() ? package : parent + "." + package;
  const size_t global = joined.rfind(kGlobal);
  if (global == std::string::npos) return joined;
  return joined.substr(std::min(global + kGlobal.size() + 1, joined.size()));
}

std::optional<Choices> parse_choices(const Node& node) {
  if (node.is_null()) return Choices{"null", std::nullopt, false};
  if (const auto* name = node.get_if<std::string>()) return Choices{*name, std::nullopt, false};
  if (const auto* text = node.get_if<Interpolation>()) {
    return Choices{text->text, std::nullopt, true};
  }
  if (!node.is_list()) return std::nullopt;
  std::vector<std::string> names;
  for (const Node& element : node.elements()) {
    const auto* name = element.get_if<std::string>();
    if (name == nullptr) return std::nullopt;
    names.push_back(*name);
  }
  return Choices{to_inline(node), std::move(names), false};
}

DefaultsEntry parse_defaults_entry(const Node& node) {
  DefaultsEntry entry;
  entry.origin = node.origin().text;
  const auto fail = [&](const std::string& message) {
    throw ConfigError(entry.origin + ": " + message + " in the defaults list: " + to_inline(node));
  };
  const bool is_name = node.get_if<std::string>() || node.get_if<Interpolation>();
  const bool is_group = node.is_map() && node.items().size() == 1;
  if (!is_name && !is_group) fail("expected a config name or group: name");
  const std::optional<Choices> choice = parse_choices(is_name ? node : node.items()[0].second);
  if (!choice) fail("a group takes the name of one option, or a list of names");
  entry.choice = *choice;
  if (is_group) {
    std::istringstream words(node.items()[0].first);
    while (words >> entry.group) {
      if (entry.group == "override") entry.is_override = true;
      if (entry.group == "optional") entry.is_optional = true;
    }
  }
  std::string& spot = is_group ? entry.group : entry.choice.name;
  const size_t at = spot.find('@');
  if (at != std::string::npos) {
    const std::string package = spot.substr(at + 1);
    entry.package = package.substr(0, package.find(':'));
    spot.resize(at);
  }
  if (spot.empty()) fail("a name is missing");
  return entry;
}

}  // namespace verlcpp::config
