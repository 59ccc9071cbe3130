// For scripts/fuzz_config.sh: any bytes as an override, as a value beside a tree, and as a YAML
// file composed with overrides. Only ConfigError may come out, and what is read must print and
// read back to itself.

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "base/error.h"
#include "config/compose.h"
#include "config/override.h"
#include "config/yaml.h"

using namespace verlcpp;
using namespace verlcpp::config;

namespace {

void require(bool condition, const char* what, const std::string& text) {
  if (condition) return;
  std::fprintf(stderr, "%s: %s\n", what, text.c_str());
  std::abort();
}

template <class Call>
void refused_or(Call call) {
  try {
    call();
  } catch (const ConfigError&) {
  }
}

void try_override(const std::string& text) {
  const Override item = parse_override(text, 1);
  if (!item.value) return;
  const std::string shown = to_inline(*item.value);
  const Override again = parse_override("k=" + shown, 1);
  require(same_values(*again.value, *item.value), "an override prints as another", shown);
}

/// Leaves lead to their values, and keys somewhere.
void try_leaves(const Node& tree) {
  for (const Leaf& leaf : leaves(tree)) {
    require(tree.at(leaf.path) != nullptr, "a leaf is not where it is", leaf.key());
  }
  for (const std::string& key : leaf_keys(tree)) {
    require(tree.find(key) != nullptr, "a key finds nothing", key);
  }
}

void try_yaml(const std::string& text) {
  const Node tree = parse_yaml(text, "f.yaml");
  const std::string shown = to_yaml(tree);
  try_leaves(tree);
  if (tree.is_scalar()) return;
  require(same_values(parse_yaml(shown, "f.yaml"), tree), "a tree prints as another", shown);
  refused_or([&] { resolve(tree); });
}

/// Lines that begin with > are overrides, those behind a line `%%% NAME` the file NAME.yaml.
void try_tree(const std::string& text) {
  std::map<std::string, std::string> files;
  std::vector<std::string> overrides;
  std::string name = "main.yaml";
  for (size_t start = 0; start < text.size();) {
    const size_t end = std::min(text.find('\n', start), text.size());
    const std::string line = text.substr(start, end - start);
    start = end + 1;
    if (line.starts_with(">")) {
      overrides.push_back(line.substr(1));
    } else if (line.starts_with("%%% ")) {
      name = line.substr(4) + ".yaml";
    } else {
      files[name] += line + "\n";
    }
  }
  const Composed composed = compose({{in_memory("conf", files)}, "main", overrides});
  try_leaves(composed.tree);
  try_leaves(composed.hydra);
  resolve(composed.tree, {0, composed.hydra});
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string text(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0] % 3) {
    case 0:
      refused_or([&] { try_override(text); });
      break;
    case 1:
      refused_or([&] { try_yaml(text); });
      break;
    default:
      refused_or([&] { try_tree(text); });
  }
  return 0;
}
