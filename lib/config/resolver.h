#pragma once

#include <array>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "config/compose.h"
#include "config/problems.h"
#include "config/tree.h"

// Behind config/interpolation.h and resolve(): resolver.cpp follows interpolations, and
// resolver_calls.cpp holds OmegaConf's and Hydra's functions, as in ${oc.env:HOME}.

namespace verlcpp::config {

/// Names from the root; kept apart because a key of a free-form map may hold a dot.
using Path = std::vector<std::string>;

/// With dots.
std::string join(const Path& path);
/// The other way; empty names included.
Path split(const std::string& key);
/// a[b].c -> a.b.c
std::string without_brackets(const std::string& key);

/// Resolves interpolations of one tree. Throws ConfigError for one that leads nowhere.
class Resolver {
 public:
  Resolver(const Node& root, const RunFacts& run) : root_(root), run_(run) {}

  /// From here on an interpolation that leads nowhere is null, and what is wrong with it noted,
  /// once.
  void note_problems(KeyProblems& problems) { problems_ = &problems; }

  /// `node` with everything below it resolved; `path` is where it stands.
  Node resolve_node(const Node& node, const Path& path);
  /// The value at a path, which may lead through interpolations and end at one; what is inside it
  /// stays as written. Nothing when there is none.
  std::optional<Node> select(const std::string& key);

 private:
  /// Where an interpolation stands, for relative keys and messages.
  struct Place {
    const Path& path;
    const Origin& origin;
    const std::string& text;
  };
  using Id = std::pair<Path, std::string>;  // where an interpolation stands, and its text
  struct Kind {
    std::string_view name;
    size_t most;  // arguments; at least one
    std::string_view takes;
    Node (Resolver::*call)(const Node& first, const Node* otherwise, const Place& place);
  };
  static const std::array<Kind, 8> kResolvers;

  /// Calls `action` while maps and lists that are found keep the interpolations in them.
  template <class Action>
  auto unresolved(Action action) {
    const bool before = std::exchange(whole_, false);
    auto result = action();
    whole_ = before;
    return result;
  }

  static std::string about(const Place& place);
  [[noreturn]] static void fail(const Place& place, const std::string& message);

  Node follow_or_note(const Interpolation& interpolation, const Node& node, const Path& path);
  void note(const ConfigError& error, const std::string& key);
  Node follow(const Interpolation& interpolation, const Origin& origin, const Path& path);
  /// A text that is one `${...}` gives that value, any other a string.
  Node evaluate(const std::string& text, const Place& place);
  /// What stands between `${` and `}`.
  Node expression(const std::string& inside, const Place& place);
  Node resolve_text(const std::string& text, const Place& place);
  /// A text: the name of a key or of a variable, or what is to be decoded.
  static std::string key_text(const Node& node, const Place& place);
  /// The value of a key, which has to be there.
  Node required(const std::string& key, const Place& place);
  /// One leading dot is the group the interpolation stands in, each further one a group above.
  static Path absolute(const std::string& written, const Place& place, bool is_select = false);
  /// Where a path leads when interpolations on the way that name a key are taken for that key, so
  /// that nothing else in there is resolved: it may need this very value. Nothing when it leads
  /// nowhere like that.
  std::optional<Path> direct(Path path) const;
  /// Whether ??? itself stands at the path.
  bool is_open(const Path& written) const;
  /// The resolved value at a path, which may lead through interpolations; nothing when there is
  /// none. `place`: what asks.
  std::optional<Node> lookup(const Path& written, const Place* place = nullptr);

  /// `${name:arguments}`.
  Node call(const std::string& name, const List& arguments, const Place& place);
  /// What is inside a map or a list stands where the call stands, not in a place of its own.
  Node resolve_argument(const Node& node, const Path& path);
  Node oc_select(const Node& first, const Node* otherwise, const Place& place);
  Node oc_env(const Node& first, const Node* otherwise, const Place& place);
  /// A text read as a value of the command line.
  Node oc_decode(const Node& text, const Node*, const Place& place);
  /// A map or a list as it is, where it stands; a text is YAML, of which a word is a key.
  Node oc_create(const Node& first, const Node*, const Place& place);
  Node dict_keys(const Node& first, const Node*, const Place& place);
  Node dict_values(const Node& first, const Node*, const Place& place);
  Map map_at(const Node& key, const Place& place);
  /// The time at which the run began.
  Node now(const Node& first, const Node*, const Place& place);
  Node hydra(const Node& first, const Node*, const Place& place);

  const Node& root_;
  const RunFacts& run_;
  bool whole_ = true;  // maps and lists that are found are resolved too
  std::map<Id, Node> done_;
  std::map<Id, Node> done_unresolved_;  // with what is inside as written
  std::vector<Id> open_;
  size_t depth_ = 0;
  KeyProblems* problems_ = nullptr;
  std::set<std::string> said_cycles_;  // the keys of those that are noted
};

}  // namespace verlcpp::config
