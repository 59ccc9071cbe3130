#include <algorithm>
#include <array>
#include <cstdlib>
#include <ctime>
#include <utility>

#include "base/error.h"
#include "config/python_text.h"
#include "config/resolver.h"
#include "config/value_parser.h"
#include "config/yaml.h"

namespace verlcpp::config {

const std::array<Resolver::Kind, 8> Resolver::kResolvers = {{
    {"oc.select", 2, "a key and a default", &Resolver::oc_select},
    {"oc.env", 2, "a name and a default", &Resolver::oc_env},
    {"oc.decode", 1, "one text", &Resolver::oc_decode},
    {"oc.create", 1, "one map or list", &Resolver::oc_create},
    {"oc.dict.keys", 1, "the key of a map", &Resolver::dict_keys},
    {"oc.dict.values", 1, "the key of a map", &Resolver::dict_values},
    {"now", 1, "a format of the time, as in ${now:%Y-%m-%d}", &Resolver::now},
    {"hydra", 1, "a key, as in ${hydra:job.num}", &Resolver::hydra},
}};

Node Resolver::call(const std::string& name, const List& arguments, const Place& place) {
  const auto resolver = std::find_if(kResolvers.begin(), kResolvers.end(),
                                     [&](const Kind& kind) { return kind.name == name; });
  if (resolver == kResolvers.end()) {
    std::string known;
    for (const Kind& kind : kResolvers)
      known += (known.empty() ? "" : ", ") + std::string(kind.name);
    fail(place, "unknown resolver " + name + "; there are " + known);
  }
  if (arguments.empty() || arguments.size() > resolver->most) {
    fail(place, name + " takes " + std::string(resolver->takes));
  }
  const Node first = resolve_argument(arguments[0], place.path);
  const Node* otherwise = arguments.size() == 2 ? &arguments[1] : nullptr;
  return (this->*resolver->call)(first, otherwise, place);
}

Node Resolver::resolve_argument(const Node& node, const Path& path) {
  if (node.is_scalar()) return resolve_node(node, path);
  if (node.is_list()) {
    List elements;
    for (const Node& element : node.elements()) elements.push_back(resolve_argument(element, path));
    return Node::list(std::move(elements), node.origin());
  }
  Map items;
  for (const auto& [name, value] : node.items()) {
    items.emplace_back(name, resolve_argument(value, path));
  }
  return Node::map(std::move(items), node.origin());
}

Node Resolver::oc_select(const Node& first, const Node* otherwise, const Place& place) {
  const Path target = absolute(key_text(first, place), place, true);
  const std::optional<Node> found = lookup(target, &place);
  // A default stands for what is ??? itself, not for what leads to such a key.
  if (found && !(is_missing(*found) && is_open(target))) return *found;
  return otherwise == nullptr ? Node(Scalar(), place.origin)
                              : resolve_argument(*otherwise, place.path);
}

Node Resolver::oc_env(const Node& first, const Node* otherwise, const Place& place) {
  const std::string name = key_text(first, place);
  const char* value = std::getenv(name.c_str());
  if (value != nullptr) return Node(std::string(value), place.origin);
  if (otherwise == nullptr) fail(place, "the environment variable " + name + " is not set");
  const Node other = unresolved([&] { return resolve_argument(*otherwise, place.path); });
  return other.is_null() ? other : Node(python_text(other), place.origin);
}

Node Resolver::oc_create(const Node& first, const Node*, const Place& place) {
  const auto* text = first.get_if<std::string>();
  Node made = text == nullptr ? first : parse_yaml(*text, place.origin.text, place.origin.source);
  if (const auto* word = made.get_if<std::string>()) {
    made = Node::map({{*word, Node()}}, place.origin);
  }
  if (made.is_scalar()) fail(place, "oc.create takes a map or a list");
  return whole_ && text != nullptr ? resolve_node(made, place.path) : made;
}

Node Resolver::dict_keys(const Node& first, const Node*, const Place& place) {
  List names;
  const Map map = unresolved([&] { return map_at(first, place); });  // it may hold this very key
  for (const auto& [name, value] : map) names.emplace_back(name, place.origin);
  return Node::list(std::move(names), place.origin);
}

Node Resolver::dict_values(const Node& first, const Node*, const Place& place) {
  const Path target = absolute(key_text(first, place), place);
  List values;
  for (auto& [name, value] : map_at(first, place)) {
    const Scalar written = Interpolation{"${" + join(target) + "." + name + "}", false};
    values.push_back(whole_ ? std::move(value) : Node(written, place.origin));
  }
  return Node::list(std::move(values), place.origin);
}

Map Resolver::map_at(const Node& key, const Place& place) {
  const Node found = required(key_text(key, place), place);
  if (!found.is_map()) fail(place, key_text(key, place) + " is no map");
  return found.items();
}

Node Resolver::now(const Node& first, const Node*, const Place& place) {
  std::tm local{};
  ::localtime_r(&run_.now, &local);
  std::array<char, 1024> text{};
  std::string format = python_text(first);
  for (size_t at = 0; (at = format.find('%', at)) != std::string::npos; at += 2) {
    if (format.compare(at, 2, "%f") == 0) format.replace(at, 2, "000000");  // microseconds
  }
  const size_t length = std::strftime(text.data(), text.size(), format.c_str(), &local);
  return Node(std::string(text.data(), length), place.origin);
}

Node Resolver::hydra(const Node& first, const Node*, const Place& place) {
  const std::string key = key_text(first, place);
  const Node* found = run_.hydra.find(key);
  if (found != nullptr) return resolve_node(*found, {"hydra", key});
  std::string known;
  for (const std::string& each : leaf_keys(run_.hydra)) {
    known += (known.empty() ? "; known are ${hydra:" : ", ${hydra:") + each + "}";
  }
  fail(place, "hydra:" + key + " is not known here" + known);
}

Node Resolver::oc_decode(const Node& text, const Node*, const Place& place) {
  if (text.is_null()) return text;
  return resolve_argument(parse_argument(key_text(text, place), place.origin), place.path);
}

}  // namespace verlcpp::config
