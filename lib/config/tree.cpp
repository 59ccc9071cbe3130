#include "config/tree.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>

#include "base/error.h"

namespace verlcpp::config {

namespace {

struct PathStep {
  std::string_view head, rest;
};

PathStep split_path(std::string_view path) {
  const size_t dot = path.find('.');
  if (dot == std::string_view::npos) return {path, {}};
  return {path.substr(0, dot), path.substr(dot + 1)};
}

std::optional<size_t> index_of(std::string_view text, size_t size) {
  if (text.empty() || text.size() > 9) return std::nullopt;
  size_t index = 0;
  for (const char c : text) {
    if (c < '0' || c > '9') return std::nullopt;
    index = 10 * index + static_cast<size_t>(c - '0');
  }
  return index < size ? std::optional(index) : std::nullopt;
}

size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t substituted = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, substituted});
    }
  }
  return row.back();
}

std::string_view last_name(std::string_view key) { return key.substr(key.rfind('.') + 1); }
std::string_view parent_of(std::string_view key) {
  const size_t dot = key.rfind('.');
  return dot == std::string_view::npos ? std::string_view() : key.substr(0, dot);
}

void collect_leaves(const Node& node, Names& path, std::vector<Leaf>& found) {
  if (!node.is_map() || node.items().empty()) {
    found.push_back({path, &node});
    return;
  }
  for (const auto& [name, child] : node.items()) {
    path.push_back(name);
    collect_leaves(child, path, found);
    path.pop_back();
  }
}

}  // namespace

Node::Node(Scalar value, Origin origin) : origin_(std::move(origin)) {
  std::visit([this](auto& held) { value_ = std::move(held); }, value);
}

Node Node::list(List items, Origin origin) {
  Node node;
  node.value_ = std::move(items);
  node.origin_ = std::move(origin);
  return node;
}

Node Node::map(Map items, Origin origin) {
  Node node;
  node.value_ = std::move(items);
  node.origin_ = std::move(origin);
  return node;
}

bool Node::is_null() const { return std::holds_alternative<std::monostate>(value_); }

const Map& Node::items() const {
  expects(is_map(), "Node::items of a value that is not a map");
  return std::get<Map>(value_);
}
Map& Node::items() { return const_cast<Map&>(std::as_const(*this).items()); }

const List& Node::elements() const {
  expects(is_list(), "Node::elements of a value that is not a list");
  return std::get<List>(value_);
}
List& Node::elements() { return const_cast<List&>(std::as_const(*this).elements()); }

const Node* Node::find(std::string_view path) const {
  if (path.empty()) return this;
  const auto [head, rest] = split_path(path);
  if (is_map()) {
    for (const auto& [name, child] : items()) {
      if (name == head) return child.find(rest);
    }
  } else if (is_list()) {
    if (const auto index = index_of(head, elements().size())) return elements()[*index].find(rest);
  }
  return nullptr;
}
const Node* Node::child(std::string_view name) const {
  if (!is_map()) return nullptr;
  for (const auto& [own, value] : items()) {
    if (own == name) return &value;
  }
  return nullptr;
}
const Node* Node::at(const Names& path) const {
  const Node* node = this;
  for (const std::string& name : path) {
    node = node->child(name);
    if (node == nullptr) return nullptr;
  }
  return node;
}
Node* Node::find(std::string_view path) {
  return const_cast<Node*>(std::as_const(*this).find(path));
}

void Node::set(std::string_view path, Node value) {
  if (path.empty()) {
    *this = std::move(value);
    return;
  }
  const auto [head, rest] = split_path(path);
  if (is_null()) *this = map({}, value.origin());
  if (is_list()) {
    const auto index = index_of(head, elements().size());
    expects(index.has_value(), "Node::set beyond the end of a list");
    elements()[*index].set(rest, std::move(value));
    return;
  }
  expects(is_map(), "Node::set below a scalar");
  for (auto& [name, child] : items()) {
    if (name != head) continue;
    child.set(rest, std::move(value));
    return;
  }
  items().emplace_back(std::string(head), Node());
  items().back().second.set(rest, std::move(value));
}

bool Node::erase(std::string_view path) {
  const std::string_view leaf = last_name(path);
  Node* parent = find(parent_of(path));
  if (parent == nullptr) return false;
  if (parent->is_map()) {
    return std::erase_if(parent->items(), [&](const auto& item) { return item.first == leaf; }) > 0;
  }
  if (!parent->is_list()) return false;
  List& list = parent->elements();
  const auto index = index_of(leaf, list.size());
  if (!index) return false;
  list.erase(list.begin() + static_cast<std::ptrdiff_t>(*index));
  return true;
}

std::string_view Node::type_name() const {
  constexpr std::string_view kNames[] = {"null",   "bool",          "integer", "float",
                                         "string", "interpolation", "list",    "map"};
  return kNames[value_.index()];
}

bool is_missing(const Node& node) {
  const auto* text = node.get_if<std::string>();
  return text != nullptr && *text == "???";
}

std::optional<double> number(const Node& node) {
  if (const auto* value = node.get_if<int64_t>()) return static_cast<double>(*value);
  if (const auto* value = node.get_if<double>()) return *value;
  return std::nullopt;
}

bool same_values(const Node& a, const Node& b) {
  if (a.is_map() && b.is_map()) {
    const auto same = [](const auto& x, const auto& y) {
      return x.first == y.first && same_values(x.second, y.second);
    };
    return std::equal(a.items().begin(), a.items().end(), b.items().begin(), b.items().end(), same);
  }
  if (a.is_list() && b.is_list()) {
    return std::equal(a.elements().begin(), a.elements().end(), b.elements().begin(),
                      b.elements().end(), same_values);
  }
  if (a.type_name() != b.type_name()) return false;
  if (const auto* x = a.get_if<bool>()) return *x == *b.get_if<bool>();
  if (const auto* x = a.get_if<int64_t>()) return *x == *b.get_if<int64_t>();
  if (const auto* x = a.get_if<std::string>()) return *x == *b.get_if<std::string>();
  if (const auto* x = a.get_if<Interpolation>()) return *x == *b.get_if<Interpolation>();
  if (const auto* x = a.get_if<double>()) {
    const double y = *b.get_if<double>();
    return *x == y || (std::isnan(*x) && std::isnan(y));
  }
  return true;  // two nulls
}

bool is_plain_name(std::string_view name) {
  return !name.empty() && name.find('.') == std::string_view::npos;
}

std::string Leaf::key() const {
  std::string text;
  for (const std::string& name : path) {
    text += (text.empty() ? "" : ".") + (name.empty() ? "''" : name);
  }
  return text;
}

std::vector<Leaf> leaves(const Node& tree) {
  std::vector<Leaf> found;
  Names path;
  collect_leaves(tree, path, found);
  return found;
}

std::vector<std::string> leaf_keys(const Node& tree) {
  std::vector<std::string> keys;
  for (const Leaf& leaf : leaves(tree)) {
    const bool has_key = std::all_of(leaf.path.begin(), leaf.path.end(), is_plain_name);
    if (has_key && !leaf.path.empty()) keys.push_back(leaf.key());
  }
  return keys;
}

std::string nearest_name(std::string_view name, const std::vector<std::string>& candidates) {
  const size_t limit = std::max<size_t>(name.size() < 4 ? 1 : 2, name.size() / 3);
  size_t best_distance = std::numeric_limits<size_t>::max();
  std::string best;
  for (const std::string& candidate : candidates) {
    const bool abbreviated = name.size() >= 3 && candidate.starts_with(name);
    const size_t distance = edit_distance(name, candidate);
    if ((distance <= limit || abbreviated) && distance < best_distance) {
      best_distance = distance;
      best = candidate;
    }
  }
  return best;
}

namespace {

/// How many of the names in `key` are in `candidate` too.
int64_t shared_names(std::string_view key, std::string_view candidate) {
  const std::string within = "." + std::string(candidate) + ".";
  int64_t shared = 0;
  for (size_t start = 0; start <= key.size();) {
    const size_t end = std::min(key.find('.', start), key.size());
    const std::string name(key.substr(start, end - start));
    shared += static_cast<int64_t>(within.find("." + name + ".") != std::string::npos);
    start = end + 1;
  }
  return shared;
}

}  // namespace

std::string nearest_key(std::string_view key, const std::vector<std::string>& candidates) {
  std::vector<std::string> siblings;
  const std::string* namesake = nullptr;
  int64_t most_shared = -1;
  for (const std::string& candidate : candidates) {
    if (parent_of(candidate) == parent_of(key)) siblings.emplace_back(last_name(candidate));
    if (last_name(candidate) != last_name(key)) continue;
    const int64_t shared = shared_names(key, candidate);
    if (shared <= most_shared) continue;
    namesake = &candidate;
    most_shared = shared;
  }
  const std::string sibling = nearest_name(last_name(key), siblings);
  if (!sibling.empty()) {
    const std::string_view parent = parent_of(key);
    return parent.empty() ? sibling : std::string(parent) + "." + sibling;
  }
  if (namesake != nullptr) return *namesake;
  // Long keys of one group are near each other whatever their last names.
  const std::string near = nearest_name(key, candidates);
  return nearest_name(last_name(key), {std::string(last_name(near))}).empty() ? "" : near;
}

}  // namespace verlcpp::config
