#include "config/resolver.h"

#include <algorithm>

#include "base/error.h"
#include "config/expression.h"
#include "config/interpolation.h"
#include "config/python_text.h"
#include "config/value_parser.h"

namespace verlcpp::config {

namespace {

constexpr size_t kMaxDepth = 64;  // interpolations inside and behind each other

const Node* child_of(const Node& node, const std::string& name) {
  if (!node.is_map()) return node.is_list() ? node.find(name) : nullptr;
  for (const auto& [key, child] : node.items()) {
    if (key == name) return &child;
  }
  return nullptr;
}

/// Of interpolations that lead to each other.
class Cycle : public ConfigError {
 public:
  Cycle(const std::string& text, std::vector<std::string> keys)
      : ConfigError(text), keys_(std::move(keys)) {}
  const std::vector<std::string>& keys() const { return keys_; }

 private:
  std::vector<std::string> keys_;
};

}  // namespace

std::string join(const Path& path) {
  std::string text;
  for (const std::string& name : path) text += (text.empty() ? "" : ".") + name;
  return text;
}

Path split(const std::string& key) {
  Path path(1);
  for (const char c : key) {
    if (c == '.') {
      path.emplace_back();
    } else {
      path.back() += c;
    }
  }
  return path;
}

std::string without_brackets(const std::string& key) {
  std::string text;
  for (const char c : key) {
    if (c == ']') continue;
    if (c != '[') {
      text += c;
    } else if (!text.empty() && text.back() != '.') {
      text += '.';
    }
  }
  return text;
}

std::string Resolver::about(const Place& place) {
  return join(place.path) + "=" + place.text + " (" + place.origin.text + "): ";
}

void Resolver::fail(const Place& place, const std::string& message) {
  throw ConfigError(about(place) + message);
}

Node Resolver::resolve_node(const Node& node, const Path& path) {
  if (node.is_map()) {
    Map items;
    for (const auto& [name, child] : node.items()) {
      Path below = path;
      below.push_back(name);
      items.emplace_back(name, resolve_node(child, below));
    }
    return Node::map(std::move(items), node.origin());
  }
  if (node.is_list()) {
    List items;
    for (const Node& element : node.elements()) {
      Path below = path;
      below.push_back(std::to_string(items.size()));
      items.push_back(resolve_node(element, below));
    }
    return Node::list(std::move(items), node.origin());
  }
  const auto* interpolation = node.get_if<Interpolation>();
  if (interpolation == nullptr) return node;
  if (problems_ != nullptr && open_.empty()) return follow_or_note(*interpolation, node, path);
  if (!interpolation->as_text) return follow(*interpolation, node.origin(), path);
  const Node piece = unresolved([&] { return follow(*interpolation, node.origin(), path); });
  return Node(python_text(piece), node.origin());
}

std::optional<Node> Resolver::select(const std::string& key) {
  const Path path = split(key);
  return unresolved([&] { return lookup(path); });
}

Node Resolver::follow_or_note(const Interpolation& interpolation, const Node& node,
                              const Path& path) {
  try {
    return follow(interpolation, node.origin(), path);
  } catch (const ConfigError& error) {
    open_.clear();
    depth_ = 0;
    whole_ = true;
    note(error, join(path));
    return Node(Scalar(), node.origin());
  }
}

void Resolver::note(const ConfigError& error, const std::string& key) {
  problems_->keys.push_back(key);
  if (const auto* cycle = dynamic_cast<const Cycle*>(&error)) {
    bool is_new = false;  // every key of a cycle finds it
    for (const std::string& each : cycle->keys()) is_new |= said_cycles_.insert(each).second;
    if (!is_new) return;
  }
  problems_->add(error);
}

Node Resolver::follow(const Interpolation& interpolation, const Origin& origin, const Path& path) {
  const Place place{path, origin, interpolation.text};
  // The text is part of the identity: a default inside an interpolation stands at the same path.
  const Id id{path, interpolation.text};
  auto& done = whole_ ? done_ : done_unresolved_;
  const auto known = done.find(id);
  if (known != done.end()) return known->second;
  const auto first = std::find(open_.begin(), open_.end(), id);
  if (first != open_.end()) {
    std::string chain;
    std::vector<std::string> keys;
    for (auto step = first; step != open_.end(); ++step) {
      keys.push_back(join(step->first));
      chain += keys.back() + " -> ";
    }
    throw Cycle(about(place) + "the interpolations form a cycle: " + chain + join(path), keys);
  }
  if (open_.size() >= kMaxDepth) fail(place, "the interpolations are nested too deeply");
  open_.push_back(id);
  Node result;
  try {
    result = evaluate(interpolation.text, place);
  } catch (const GrammarError& error) {
    fail(place, error.message);
  }
  open_.pop_back();
  done[id] = result;
  return result;
}

Node Resolver::evaluate(const std::string& text, const Place& place) {
  if (text.starts_with("${") && end_of_interpolation(text, 0) == text.size()) {
    return expression(text.substr(2, text.size() - 3), place);
  }
  std::string result;
  std::optional<Node> missing;  // makes the whole so, but what comes behind it has to be readable
  size_t backslashes = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool opens = text.compare(i, 2, "${") == 0;
    if (opens) result.resize(result.size() - (backslashes + 1) / 2);
    if (opens && backslashes % 2 == 0) {
      const size_t end = end_of_interpolation(text, i);
      const std::string inside = text.substr(i + 2, end - i - 3);
      if (missing) {
        parse_expression(inside);
      } else {
        // OmegaConf prints a map or a list as it is written.
        const Node piece = unresolved([&] { return expression(inside, place); });
        if (is_missing(piece)) missing = piece;
        result += python_text(piece);
      }
      i = end - 1;
      backslashes = 0;
      continue;
    }
    backslashes = text[i] == '\\' ? backslashes + 1 : 0;
    result += text[i];
  }
  return missing ? *missing : Node(std::move(result), place.origin);
}

Node Resolver::expression(const std::string& inside, const Place& place) {
  if (++depth_ > kMaxDepth) fail(place, "the interpolations are nested too deeply");
  const Expression parsed = parse_expression(inside);
  std::string name;
  for (const std::string& piece : parsed.pieces) {
    name += piece.starts_with("${") ? key_text(resolve_text(piece, place), place) : piece;
  }
  Node result;
  if (parsed.is_call) {
    result = call(name, parse_arguments(inside, parsed.arguments, place.origin), place);
  } else {
    result = required(name, place);
  }
  --depth_;
  return result;
}

Node Resolver::resolve_text(const std::string& text, const Place& place) {
  return resolve_node(Node(Interpolation{text, false}, place.origin), place.path);
}

std::string Resolver::key_text(const Node& node, const Place& place) {
  const auto* text = node.get_if<std::string>();
  if (text == nullptr) fail(place, to_inline(node) + " is no text, which is what is wanted here");
  return *text;
}

Node Resolver::required(const std::string& key, const Place& place) {
  const Path target = absolute(key, place);
  if (const auto found = lookup(target, &place)) return *found;
  const std::string wanted = join(target), deleted = run_.history.deleted_by(wanted);
  const std::string near = deleted.empty() ? nearest_key(wanted, leaf_keys(root_)) : "";
  throw AbsentKey(about(place) + "there is no key " + wanted +
                      (!deleted.empty() ? ": " + deleted + " deletes " +
                                              (run_.history.deleted_at(wanted) == wanted
                                                   ? "it"
                                                   : run_.history.deleted_at(wanted))
                       : near.empty() ? ""
                                      : "; did you mean " + near + "?"),
                  wanted);
}

Path Resolver::absolute(const std::string& written, const Place& place, bool is_select) {
  const std::string key = without_brackets(written);
  const size_t dots = std::min(key.find_first_not_of('.'), key.size());
  if (dots > place.path.size()) fail(place, key + " leads above the root");
  Path path;
  if (dots > 0) {
    path.assign(place.path.begin(), place.path.end() - static_cast<std::ptrdiff_t>(dots));
  }
  if (is_select && dots == key.size()) return path;
  for (std::string& name : split(key.substr(dots))) {
    // oc.select finds nothing under an empty name.
    if (name.empty() && !is_select) fail(place, "a key is missing or incomplete");
    path.push_back(std::move(name));
  }
  return path;
}

std::optional<Path> Resolver::direct(Path path) const {
  constexpr int kMostLinks = 32;  // more are a cycle, for all one can tell
  for (int links = 0; links < kMostLinks; ++links) {
    const Node* node = &root_;
    size_t at = 0;
    while (at < path.size() && node->get_if<Interpolation>() == nullptr) {
      if (node->is_list() && !python_int(path[at])) return std::nullopt;
      node = child_of(*node, path[at++]);
      if (node == nullptr) return std::nullopt;
    }
    if (at == path.size()) return path;
    const auto key = followed_key(*node->get_if<Interpolation>());
    if (!key) return std::nullopt;
    Path onward = split(*key);
    onward.insert(onward.end(), path.begin() + static_cast<std::ptrdiff_t>(at), path.end());
    path = std::move(onward);
  }
  return std::nullopt;
}

bool Resolver::is_open(const Path& written) const {
  const Node* node = &root_;
  for (const std::string& name : direct(written).value_or(written)) {
    node = node->is_list() && !python_int(name) ? nullptr : child_of(*node, name);
    if (node == nullptr) return false;
  }
  return is_missing(*node);
}

std::optional<Node> Resolver::lookup(const Path& written, const Place* place) {
  const Path path = direct(written).value_or(written);
  const Node* node = &root_;
  Node behind;  // holds what an interpolation on the way leads to
  Path walked;
  for (const std::string& name : path) {
    if (node->get_if<Interpolation>() != nullptr) {
      const bool before = std::exchange(whole_, true);
      behind = resolve_node(*node, walked);
      whole_ = before;
      if (is_missing(behind)) return behind;
      node = &behind;
    }
    if (node->is_list() && !python_int(name)) {
      const std::string text = join(walked) + " is a list, and " + name + " is no number";
      throw ConfigError((place == nullptr ? join(path) + ": " : about(*place)) + text);
    }
    node = child_of(*node, name);
    if (node == nullptr) return std::nullopt;
    walked.push_back(name);
  }
  const bool as_it_is = !whole_ && node->get_if<Interpolation>() == nullptr;
  return as_it_is ? *node : resolve_node(*node, path);
}

}  // namespace verlcpp::config
