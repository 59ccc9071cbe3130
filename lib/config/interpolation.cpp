#include "config/interpolation.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <ctime>
#include <map>
#include <set>
#include <utility>

#include "base/error.h"
#include "config/compose.h"
#include "config/expression.h"
#include "config/problems.h"
#include "config/python_text.h"
#include "config/scalar.h"
#include "config/value_parser.h"
#include "config/yaml.h"

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

/// Of an interpolation that names no key of the tree.
class AbsentKey : public ConfigError {
 public:
  AbsentKey(const std::string& text, std::string key) : ConfigError(text), key_(std::move(key)) {}
  const std::string& key() const { return key_; }

 private:
  std::string key_;
};

class Resolver {
 public:
  Resolver(const Node& root, const RunFacts& run) : root_(root), run_(run) {}

  /// From here on an interpolation that leads nowhere is null, and what is wrong with it noted,
  /// once.
  void note_problems(KeyProblems& problems) { problems_ = &problems; }

  /// Calls `action` while maps and lists that are found keep the interpolations in them.
  template <class Action>
  auto unresolved(Action action) {
    const bool before = std::exchange(whole_, false);
    auto result = action();
    whole_ = before;
    return result;
  }

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
    if (interpolation == nullptr) return node;
    if (problems_ != nullptr && open_.empty()) return follow_or_note(*interpolation, node, path);
    if (!interpolation->as_text) return follow(*interpolation, node.origin(), path);
    const Node piece = unresolved([&] { return follow(*interpolation, node.origin(), path); });
    return Node(python_text(piece), node.origin());
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

  static std::string about(const Place& place) {
    return join(place.path) + "=" + place.text + " (" + place.origin.text + "): ";
  }

  [[noreturn]] static void fail(const Place& place, const std::string& message) {
    throw ConfigError(about(place) + message);
  }

  Node follow_or_note(const Interpolation& interpolation, const Node& node, const Path& path) {
    try {
      return follow(interpolation, node.origin(), path);
    } catch (const ConfigError& error) {
      open_.clear();
      depth_ = 0;
      whole_ = true;
      const std::string text = error.what();
      const bool cycle =
          text.find("form a cycle") != std::string::npos;  // said by each of its keys
      if (!cycle || !said_cycle_) problems_->texts.push_back(text);
      const auto* absent = dynamic_cast<const AbsentKey*>(&error);
      if (absent != nullptr) problems_->absent[text] = absent->key();
      problems_->keys.push_back(join(path));
      said_cycle_ = said_cycle_ || cycle;
      return Node(Scalar(), node.origin());
    }
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
    return resolve_node(Node(Interpolation{text, false}, place.origin), place.path);
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
    const std::string wanted = join(target), near = nearest_key(wanted, leaf_keys(root_));
    throw AbsentKey(about(place) + "there is no key " + wanted +
                        (near.empty() ? "" : "; did you mean " + near + "?"),
                    wanted);
  }

  Node call(const std::string& name, const List& arguments, const Place& place) {
    const auto resolver = std::find_if(kResolvers.begin(), kResolvers.end(),
                                       [&](const Kind& kind) { return kind.name == name; });
    if (resolver == kResolvers.end()) fail(place, "unknown resolver " + name + all_resolvers());
    if (arguments.empty() || arguments.size() > resolver->most) {
      fail(place, name + " takes " + std::string(resolver->takes));
    }
    const Node first = resolve_node(arguments[0], place.path);
    const Node* otherwise = arguments.size() == 2 ? &arguments[1] : nullptr;
    return (this->*resolver->call)(first, otherwise, place);
  }

  Node oc_select(const Node& first, const Node* otherwise, const Place& place) {
    const Path target = absolute(key_text(first, place), place, true);
    const std::optional<Node> found = lookup(target);
    // A default stands for what is ??? itself, not for what leads to such a key.
    if (found && !(is_missing(*found) && is_open(target))) return *found;
    return otherwise == nullptr ? Node(Scalar(), place.origin)
                                : resolve_node(*otherwise, place.path);
  }

  Node oc_env(const Node& first, const Node* otherwise, const Place& place) {
    const std::string name = key_text(first, place);
    const char* value = std::getenv(name.c_str());
    if (value != nullptr) return Node(std::string(value), place.origin);
    if (otherwise == nullptr) fail(place, "the environment variable " + name + " is not set");
    const Node other = unresolved([&] { return resolve_node(*otherwise, place.path); });
    return other.is_null() ? other : Node(python_text(other), place.origin);
  }

  /// A map or a list as it is, where it stands; a text is YAML, of which a word is a key.
  Node oc_create(const Node& first, const Node*, const Place& place) {
    const auto* text = first.get_if<std::string>();
    Node made = text == nullptr ? first : parse_yaml(*text, place.origin.text, place.origin.source);
    if (const auto* word = made.get_if<std::string>()) {
      made = Node::map({{*word, Node()}}, place.origin);
    }
    if (made.is_scalar()) fail(place, "oc.create takes a map or a list");
    return whole_ && text != nullptr ? resolve_node(made, place.path) : made;
  }

  Node dict_keys(const Node& first, const Node*, const Place& place) {
    List names;
    const Map map = unresolved([&] { return map_at(first, place); });  // it may hold this very key
    for (const auto& [name, value] : map) names.emplace_back(name, place.origin);
    return Node::list(std::move(names), place.origin);
  }

  Node dict_values(const Node& first, const Node*, const Place& place) {
    const Path target = absolute(key_text(first, place), place);
    List values;
    for (auto& [name, value] : map_at(first, place)) {
      const Scalar written = Interpolation{"${" + join(target) + "." + name + "}", false};
      values.push_back(whole_ ? std::move(value) : Node(written, place.origin));
    }
    return Node::list(std::move(values), place.origin);
  }

  Map map_at(const Node& key, const Place& place) {
    const Node found = required(key_text(key, place), place);
    if (!found.is_map()) fail(place, key_text(key, place) + " is no map");
    return found.items();
  }

  /// The time at which the run began.
  Node now(const Node& first, const Node*, const Place& place) {
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

  Node hydra(const Node& first, const Node*, const Place& place) {
    const std::string key = key_text(first, place);
    const Node* found = run_.hydra.find(key);
    if (found != nullptr) return resolve_node(*found, {"hydra", key});
    std::string known;
    for (const std::string& each : leaf_keys(run_.hydra)) {
      known += (known.empty() ? "; known are ${hydra:" : ", ${hydra:") + each + "}";
    }
    fail(place, "hydra:" + key + " is not known here" + known);
  }

  /// A text read as a value of the command line.
  Node oc_decode(const Node& text, const Node*, const Place& place) {
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

  /// Where a path leads when interpolations on the way that name a key are taken for that key, so
  /// that nothing else in there is resolved: it may need this very value. Nothing when it leads
  /// nowhere like that.
  std::optional<Path> direct(Path path) const {
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

  /// Whether ??? itself stands at the path.
  bool is_open(const Path& written) const {
    const Node* node = &root_;
    for (const std::string& name : direct(written).value_or(written)) {
      node = node->is_list() && !python_int(name) ? nullptr : child_of(*node, name);
      if (node == nullptr) return false;
    }
    return is_missing(*node);
  }

  /// The resolved value at a path, which may lead through interpolations; nothing when there is
  /// none.
  std::optional<Node> lookup(const Path& written) {
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

  struct Kind {
    std::string_view name;
    size_t most;  // arguments; at least one
    std::string_view takes;
    Node (Resolver::*call)(const Node& first, const Node* otherwise, const Place& place);
  };
  static const std::array<Kind, 8> kResolvers;

  static std::string all_resolvers() {
    std::string names;
    for (const Kind& kind : kResolvers) {
      names += (names.empty() ? "; there are " : ", ") + std::string(kind.name);
    }
    return names;
  }

  const Node& root_;
  const RunFacts& run_;
  bool whole_ = true;  // maps and lists that are found are resolved too
  std::map<std::pair<Path, std::string>, Node> done_;
  std::map<std::pair<Path, std::string>, Node> done_unresolved_;  // with what is inside as written
  std::vector<std::pair<Path, std::string>> open_;
  size_t depth_ = 0;
  KeyProblems* problems_ = nullptr;
  bool said_cycle_ = false;
};

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

const RunFacts kNoFacts;

}  // namespace

Node resolve(const Node& tree, const RunFacts& run) {
  KeyProblems problems;
  Node resolved = resolve(tree, run, problems);
  throw_problems(problems.texts);
  return resolved;
}

Node resolve(const Node& tree, const RunFacts& run, KeyProblems& problems) {
  Resolver resolver(tree, run);
  resolver.note_problems(problems);
  Node resolved = resolver.resolve_node(tree, {});
  std::set<std::string> said;
  std::erase_if(problems.texts, [&](const std::string& text) { return !said.insert(text).second; });
  return resolved;
}

Node resolve_in(const Node& tree, const Node& node, const std::string& path, const RunFacts& run) {
  return Resolver(tree, run).resolve_node(node, split(path));
}

std::optional<Node> select(const Node& tree, const std::string& path) {
  return Resolver(tree, kNoFacts).select(path);
}

std::optional<std::string> followed_key(const Interpolation& interpolation) {
  const std::string& text = interpolation.text;
  if (!text.starts_with("${") || end_of_interpolation(text, 0) != text.size()) return std::nullopt;
  const std::string inside = text.substr(2, text.size() - 3);
  const Expression parsed = parse_expression(inside);
  std::string name;
  for (const std::string& piece : parsed.pieces) name += piece;
  if (name.starts_with('.') || name.find("${") != std::string::npos) return std::nullopt;
  if (!parsed.is_call) return without_brackets(name);
  if (name != "oc.select") return std::nullopt;
  const List arguments = parse_arguments(inside, parsed.arguments, {});
  const auto* key = arguments.empty() ? nullptr : arguments[0].get_if<std::string>();
  return key == nullptr ? std::nullopt : std::optional(*key);
}

}  // namespace verlcpp::config
