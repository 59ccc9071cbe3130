#include "config/merge.h"

#include <optional>

#include "base/error.h"
#include "config/interpolation.h"

namespace verlcpp::config {

void follow(const Node& tree, const std::string& path, Node& node) {
  if (node.get_if<Interpolation>() == nullptr) return;
  std::optional<Node> target;
  try {
    target = select(tree, path);
  } catch (const ConfigError&) {
    return;  // it may lead somewhere once all files and overrides are in
  }
  if (target && !target->is_scalar()) node = *target;
}

std::string merge(const Node& tree, const std::string& path, const Node& over, Node& under) {
  if ((under.is_list() && over.is_map()) || (under.is_map() && over.is_list())) {
    return path + " is a " + std::string(under.type_name()) + " (" + under.origin().text +
           ") and cannot become a " + std::string(over.type_name()) + " (" + over.origin().text +
           ")";
  }
  if (!under.is_map() || !over.is_map()) {
    under = over;
    return "";
  }
  if (over.origin().source != Origin::Source::kShipped) under.set_origin(over.origin());
  for (const auto& [name, value] : over.items()) {
    Node* child = nullptr;
    for (auto& [there, present] : under.items()) child = there == name ? &present : child;
    if (child == nullptr) {
      under.items().emplace_back(name, value);
      continue;
    }
    const std::string below = path.empty() ? name : path + "." + name;
    follow(tree, below, *child);
    if (is_missing(value)) continue;
    const std::string message = merge(tree, below, value, *child);
    if (!message.empty()) return message;
  }
  return "";
}

}  // namespace verlcpp::config
