// For scripts/parity/hydra_check.py: reads JSON lines and answers each with one.
//
//   hydra_lines < LINES
//
// {"override": TEXT}                       {"kind", "key", "package", "value"}
// {"yaml": TEXT}                           {"value"}: read and resolved
// {"value": TEXT, "yaml": TEXT}            {"value"}: of `k=TEXT`, put beside the YAML and resolved
// {"folder": PATH, "overrides": [TEXT]}    {"value"}: PATH/main.yaml composed and resolved
//
// or {"error": MESSAGE}. Integers and floats are {"int": TEXT} and {"float": TEXT}, maps
// {"map": [[KEY, VALUE]]}.

#include <iostream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "config/compose.h"
#include "config/override.h"
#include "config/scalar.h"
#include "config/yaml.h"

using namespace verlcpp;
using namespace verlcpp::config;
using Json = nlohmann::json;

namespace {

Json plain(const Node& node) {
  if (node.is_map()) {
    Json items = Json::array();
    for (const auto& [name, child] : node.items()) items.push_back({name, plain(child)});
    return {{"map", items}};
  }
  if (node.is_list()) {
    Json items = Json::array();
    for (const Node& element : node.elements()) items.push_back(plain(element));
    return items;
  }
  if (const auto* value = node.get_if<bool>()) return *value;
  if (const auto* value = node.get_if<int64_t>()) return {{"int", std::to_string(*value)}};
  if (const auto* value = node.get_if<double>()) return {{"float", format_float(*value)}};
  if (const auto* value = node.get_if<std::string>()) return *value;
  if (const auto* value = node.get_if<Interpolation>()) return {{"interpolation", value->text}};
  return nullptr;
}

Json parsed(const std::string& text) {
  constexpr const char* kKinds[] = {"set", "add", "force", "delete"};
  const Override item = parse_override(text, 1);
  return {{"kind", kKinds[static_cast<int>(item.kind)]},
          {"key", item.key},
          {"package", item.package ? Json(*item.package) : Json()},
          {"value", item.value ? plain(*item.value) : Json()}};
}

Json answer(const Json& line) {
  if (line.contains("override")) return parsed(line["override"].get<std::string>());
  Node tree;
  if (line.contains("folder")) {
    tree = compose({{folder(line["folder"].get<std::string>())},
                    "main",
                    line["overrides"].get<std::vector<std::string>>()})
               .tree;
  } else {
    tree = parse_yaml(line["yaml"].get<std::string>(), "main.yaml");
    if (tree.is_scalar()) throw ConfigError("neither a map nor a list");
  }
  if (!line.contains("value")) return {{"value", plain(resolve(tree))}};
  const Override item = parse_override("k=" + line["value"].get<std::string>(), 1);
  tree.set("k", *item.value);
  return {{"value", plain(*resolve(tree).find("k"))}};
}

}  // namespace

int main() {
  for (std::string line; std::getline(std::cin, line);) {
    Json out;
    try {
      out = answer(Json::parse(line));
    } catch (const ConfigError& error) {
      out = {{"error", error.what()}};
    }
    std::cout << out.dump(-1, ' ', false, Json::error_handler_t::replace) << std::endl;
  }
  return 0;
}
