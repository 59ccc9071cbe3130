#include "train/tool_config.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/error.h"
#include "config/compose.h"
#include "config/yaml.h"
#include "data/text_file.h"
#include "train/node_json.h"

namespace verlcpp::train {
namespace {

using config::Node;
using Json = nlohmann::ordered_json;

/// A map of the file, and its name from the top.
struct Part {
  const Node& node;
  std::string name;
};

class Reader {
 public:
  Json tools(const Node& file) const {
    Json out = Json::array();
    const Node* tools = file.find("tools");
    const char* valid = "a list of {class_name, config, tool_schema}";
    if (tools == nullptr) fail(file, "tools is missing", valid);
    if (!tools->is_list()) fail(*tools, "tools is " + config::to_inline(*tools), valid);
    for (size_t i = 0; i < tools->elements().size(); ++i) {
      const Part entry{tools->elements()[i], "tools[" + std::to_string(i) + "]"};
      expect_map(entry);
      text(entry, "class_name");
      const Part options = map(entry, "config");
      if (text(options, "type") != "native") {
        wrong(options, "type", "native (verl's tools of other servers are not read)");
      }
      out.push_back(tool(map(entry, "tool_schema")));
    }
    return out;
  }

 private:
  [[noreturn]] void fail(const Node& node, const std::string& what,
                         const std::string& valid) const {
    throw ConfigError(node.origin().text + ": " + what + "; valid: " + valid);
  }
  /// Of what is there, or is not.
  [[noreturn]] void wrong(const Part& part, const std::string& key,
                          const std::string& valid) const {
    const Node* child = find(part, key);
    const std::string name = part.name + "." + key;
    if (child == nullptr) fail(part.node, name + " is missing", valid);
    fail(*child, name + " is " + config::to_inline(*child), valid);
  }
  void expect_map(const Part& part) const {
    if (!part.node.is_map()) fail(part.node, part.name + " is no group of keys", "a group of keys");
  }
  /// Null where the key is absent or null. Not Node::find, to which a dot in a name is a path.
  static const Node* find(const Part& part, const std::string& key) {
    for (const auto& [name, child] : part.node.items()) {
      if (name == key) return child.is_null() ? nullptr : &child;
    }
    return nullptr;
  }

  Part map(const Part& part, const std::string& key) const {
    const Node* child = find(part, key);
    if (child == nullptr || !child->is_map()) wrong(part, key, "a group of keys");
    return {*child, part.name + "." + key};
  }
  std::string text(const Part& part, const std::string& key) const {
    const Node* child = find(part, key);
    const auto* value = child != nullptr ? child->get_if<std::string>() : nullptr;
    if (value == nullptr) wrong(part, key, "a string");
    return *value;
  }
  static bool is_texts(const Node& node) {
    const auto is_text = [](const Node& one) { return one.get_if<std::string>() != nullptr; };
    return node.is_list() && std::all_of(node.elements().begin(), node.elements().end(), is_text);
  }

  Json tool(const Part& part) const {
    return {{"type", text(part, "type")}, {"function", function(map(part, "function"))}};
  }

  Json function(const Part& part) const {
    Json out = {{"name", text(part, "name")}, {"description", text(part, "description")}};
    if (find(part, "parameters") != nullptr) {
      out["parameters"] = parameters(map(part, "parameters"));
    }
    if (const Node* strict = find(part, "strict")) {
      if (strict->get_if<bool>() == nullptr) wrong(part, "strict", "true or false");
      out["strict"] = to_json(*strict);
    }
    return out;
  }

  Json parameters(const Part& part) const {
    const Part properties = map(part, "properties");
    Json out = {{"type", text(part, "type")}, {"properties", Json::object()}};
    for (const auto& [name, node] : properties.node.items()) {
      const Part child{node, properties.name + "." + name};
      expect_map(child);
      out["properties"][name] = property(child);
    }
    if (const Node* required = find(part, "required")) {
      if (!is_texts(*required)) wrong(part, "required", "a list of strings");
      out["required"] = to_json(*required);
    }
    add_others(part, out);
    return out;
  }

  Json property(const Part& part) const {
    const Node* type = find(part, "type");
    if (type == nullptr || (type->get_if<std::string>() == nullptr && !is_texts(*type))) {
      wrong(part, "type", "a string, or a list of strings");
    }
    Json out = {{"type", to_json(*type)}};
    if (find(part, "description") != nullptr) out["description"] = text(part, "description");
    if (const Node* values = find(part, "enum")) {
      if (!values->is_list()) wrong(part, "enum", "a list");
      out["enum"] = to_json(*values);
    }
    add_others(part, out);
    return out;
  }

  static void add_others(const Part& part, Json& out) {
    for (const auto& [name, node] : part.node.items()) {
      if (!node.is_null() && !out.contains(name)) out[name] = to_json(node);
    }
  }
};

}  // namespace

std::string read_tool_config(const std::string& path, const std::string& about) {
  Json tools;
  try {
    const Node file = config::resolve(config::parse_yaml(data::read_text_file(path), path));
    if (!file.is_map()) throw ConfigError(path + ": no group of keys; valid: one with tools");
    tools = Reader().tools(file);
  } catch (const DataError& error) {
    throw ConfigError(about + ": " + error.what());
  } catch (const ConfigError& error) {
    throw ConfigError(about + ": " + error.what());
  }
  return tools.empty() ? "" : tools.dump();
}

}  // namespace verlcpp::train
