#include "train/config_changes.h"

#include <fstream>
#include <iterator>
#include <map>
#include <vector>

#include "config/yaml.h"

namespace verlcpp::train {
namespace {

constexpr size_t kShown = 6;

std::string shown(const config::Node* node) {
  return node == nullptr ? "absent" : config::to_inline(*node);
}

}  // namespace

std::string changed_keys(const std::string& saved_file, const std::string& yaml) {
  std::ifstream in(saved_file);
  if (!in) return "";
  const std::string text(std::istreambuf_iterator<char>(in), {});
  const config::Node before = config::parse_yaml(text, saved_file);
  const config::Node after = config::parse_yaml(yaml, "configuration");
  std::map<config::Names, std::string> keys;
  for (const config::Node* tree : {&before, &after}) {
    for (const config::Leaf& leaf : config::leaves(*tree)) keys.emplace(leaf.path, leaf.key());
  }
  std::vector<std::string> changes;
  for (const auto& [path, key] : keys) {
    const config::Node *old_value = before.at(path), *new_value = after.at(path);
    if (old_value && new_value && config::same_values(*old_value, *new_value)) continue;
    changes.push_back(key + ": " + shown(old_value) + " -> " + shown(new_value));
  }
  std::string line;
  for (size_t i = 0; i < changes.size() && i < kShown; ++i) line += (i ? ", " : "") + changes[i];
  if (changes.size() > kShown) {
    line += ", and " + std::to_string(changes.size() - kShown) + " more";
  }
  return line;
}

}  // namespace verlcpp::train
