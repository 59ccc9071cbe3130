#include "config/interpolation.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <utility>

#include "base/error.h"
#include "config/compose.h"
#include "config/expression.h"
#include "config/python_text.h"
#include "config/scalar.h"
#include "config/value_parser.h"

namespace verlcpp::config {

namespace {

constexpr size_t kMaxDepth = 64;  // interpolations inside and behind each other

/// Names from the root; kept apart because a key of a free-form map may hold a dot.
using Path = std::vector<std::string>;

std::string join(const Path& path) {
  std::string text;
  for (const std::string& name : path) text += (text.empty() ? "" : ".") + name;
  return text;
}

/// Empty names included.
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

const Node* child_of(const Node& node, const std::string& name) {
  if (!node.is_map()) return node.is_list() ? node.find(name) : nullptr;
  for (const auto& [key, child] : node.items()) {
    if (key == name) return &child;
  }
  return nullptr;
}

/// a[b].c -> a.b.c
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

class Resolver {
 public:
  explicit Resolver(const Node& root) : root_(root) {}

  /// `node` with everything below it resolved; `path` is where it stands.
  Node resolve_node(const Node& node, const Path& path) {
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
    return interpolation == nullptr ? node : follow(*interpolation, node.origin(), path);
  }

  /// Calls `action` while maps and lists that are found keep the interpolations in them.
  template <class Action>
  auto unresolved(Action action) {
    const bool before = std::exchange(whole_, false);
    auto result = action();
    whole_ = before;
    return result;
  }

  /// The value at a path, which may lead through interpolations and end at one; what is inside it
  /// stays as written. Nothing when there is none.
  std::optional<Node> select(const std::string& key) {
    const Path path = split(key);
    return unresolved([&] { return lookup(path); });
  }

 private:
  /// Where an interpolation stands, for relative keys and messages.
  struct Place {
    const Path& path;
    const Origin& origin;
    const std::string& text;
  };

  [[noreturn]] static void fail(const Place& place, const std::string& message) {
    throw ConfigError(join(place.path) + "=" + place.text + " (" + place.origin.text +
                      "): " + message);
  }

  Node follow(const Interpolation& interpolation, const Origin& origin, const Path& path) {
    const Place place{path, origin, interpolation.text};
    // The text is part of the identity: a default inside an interpolation stands at the same path.
    const std::pair<Path, std::string> id{path, interpolation.text};
    auto& done = whole_ ? done_ : done_unresolved_;
    const auto known = done.find(id);
    if (known != done.end()) return known->second;
    const auto first = std::find(open_.begin(), open_.end(), id);
    if (first != open_.end()) {
      std::string chain;
      for (auto step = first; step != open_.end(); ++step) chain += join(step->first) + " -> ";
      fail(place, "the interpolations form a cycle: " + chain + join(path));
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

  /// A text that is one `${...}` gives that value, any other a string.
  Node evaluate(const std::string& text, const Place& place) {
    if (text.starts_with("${") && end_of_interpolation(text, 0) == text.size()) {
      return expression(text.substr(2, text.size() - 3), place);
    }
    std::string result;
    size_t backslashes = 0;
    for (size_t i = 0; i < text.size(); ++i) {
      const bool opens = text.compare(i, 2, "${") == 0;
      if (opens) result.resize(result.size() - (backslashes + 1) / 2);
      if (opens && backslashes % 2 == 0) {
        const size_t end = end_of_interpolation(text, i);
        // OmegaConf prints a map or a list as it is written.
        const Node piece =
            unresolved([&] { return expression(text.substr(i + 2, end - i - 3), place); });
        if (is_missing(piece)) return piece;
        result += python_text(piece);
        i = end - 1;
        backslashes = 0;
        continue;
      }
      backslashes = text[i] == '\\' ? backslashes + 1 : 0;
      result += text[i];
    }
    return Node(std::move(result), place.origin);
  }

  /// OmegaConf's marker for a value that somebody has to set.
  static bool is_missing(const Node& node) {
    const auto* text = node.get_if<std::string>();
    return text != nullptr && *text == "???";
  }

  /// What stands between `${` and `}`.
  Node expression(const std::string& inside, const Place& place) {
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

  Node resolve_text(const std::string& text, const Place& place) {
    return resolve_node(Node(Interpolation{text}, place.origin), place.path);
  }

  /// A text that is to name a key.
  static std::string key_text(const Node& node, const Place& place) {
    const auto* text = node.get_if<std::string>();
    if (text == nullptr) fail(place, to_inline(node) + " is no string and names no key");
    return *text;
  }

  Node required(const std::string& key, const Place& place) {
    const Path target = absolute(key, place);
    if (const auto found = lookup(target)) return *found;
    const std::string near = nearest_key(join(target), leaf_keys(root_));
    fail(place,
         "there is no key " + join(target) + (near.empty() ? "" : "; did you mean " + near + "?"));
  }

  Node call(const std::string& name, const List& arguments, const Place& place) {
    if (name != "oc.select" && name != "oc.env" && name != "oc.decode") {
      fail(place, "unknown resolver " + name + "; there are oc.select, oc.env and oc.decode");
    }
    const size_t most = name == "oc.decode" ? 1 : 2;
    if (arguments.empty() || arguments.size() > most) {
      fail(place, name + (most == 1 ? " takes one text" : " takes a key and a default"));
    }
    const Node first = resolve_node(arguments[0], place.path);
    if (name == "oc.decode") return decode(first, place);
    const std::string key = key_text(first, place);
    const bool has_default = arguments.size() == 2;
    if (name == "oc.env") {
      const char* value = std::getenv(key.c_str());
      if (value != nullptr) return Node(std::string(value), place.origin);
      if (!has_default) fail(place, "the environment variable " + key + " is not set");
      const Node other = unresolved([&] { return resolve_node(arguments[1], place.path); });
      return other.is_null() ? other : Node(python_text(other), place.origin);
    }
    const std::optional<Node> found = lookup(absolute(key, place, true));
    if (found && !is_missing(*found)) return *found;
    return has_default ? resolve_node(arguments[1], place.path) : Node(Scalar(), place.origin);
  }

  /// A text read as a value of the command line.
  Node decode(const Node& text, const Place& place) {
    if (text.is_null()) return text;
    return resolve_node(parse_argument(key_text(text, place), place.origin), place.path);
  }

  /// One leading dot is the group the interpolation stands in, each further one a group above.
  static Path absolute(const std::string& written, const Place& place, bool is_select = false) {
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

  /// The resolved value at a path, which may lead through interpolations; nothing when there is
  /// none.
  std::optional<Node> lookup(const Path& path) {
    const Node* node = &root_;
    Node behind;  // holds what an interpolation on the way leads to
    Path walked;
    for (const std::string& name : path) {
      if (node->get_if<Interpolation>() != nullptr) {
        const bool before = std::exchange(whole_, true);
        behind = resolve_node(*node, walked);
        whole_ = before;
        node = &behind;
      }
      if (node->is_list() && !python_int(name)) {
        throw ConfigError(join(path) + ": " + join(walked) + " is a list, and " + name +
                          " is no number");
      }
      node = child_of(*node, name);
      if (node == nullptr) return std::nullopt;
      walked.push_back(name);
    }
    const bool as_it_is = !whole_ && node->get_if<Interpolation>() == nullptr;
    return as_it_is ? *node : resolve_node(*node, path);
  }

  const Node& root_;
  bool whole_ = true;  // maps and lists that are found are resolved too
  std::map<std::pair<Path, std::string>, Node> done_;
  std::map<std::pair<Path, std::string>, Node> done_unresolved_;  // with what is inside as written
  std::vector<std::pair<Path, std::string>> open_;
  size_t depth_ = 0;
};

}  // namespace

Node resolve(const Node& tree) { return Resolver(tree).resolve_node(tree, {}); }

Node resolve_in(const Node& tree, const Node& node) {
  return Resolver(tree).resolve_node(node, {"here"});
}

std::optional<Node> select(const Node& tree, const std::string& path) {
  return Resolver(tree).select(path);
}

}  // namespace verlcpp::config
