#include "train/node_json.h"

#include <nlohmann/json.hpp>

namespace verlcpp::train {
nlohmann::ordered_json to_json(const config::Node& node) {
  if (node.is_map()) {
    auto map = nlohmann::ordered_json::object();
    for (const auto& [key, value] : node.items()) map[key] = to_json(value);
    return map;
  }
  if (node.is_list()) {
    auto list = nlohmann::ordered_json::array();
    for (const config::Node& element : node.elements()) list.push_back(to_json(element));
    return list;
  }
  if (const auto* b = node.get_if<bool>()) return *b;
  if (const auto* i = node.get_if<int64_t>()) return *i;
  if (const auto* d = node.get_if<double>()) return *d;
  if (const auto* s = node.get_if<std::string>()) return *s;
  return nullptr;
}

std::string json_text(const config::Node& node) { return to_json(node).dump(); }

}  // namespace verlcpp::train
