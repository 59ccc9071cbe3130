#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace verlcpp::config {

/// Where a value came from: "conf/x.yaml:12", "override 3" (1-based), or "default" for a value no
/// file sets.
struct Origin {
  enum class Source {
    kShipped,   // a file of conf/, or no file at all
    kFile,      // a user's file
    kOverride,  // of the command line
    kFlag,      // another word of the command line
  };
  Origin() = default;
  Origin(std::string where, Source from) : text(std::move(where)), source(from) {}

  std::string text = "default";
  Source source = Source::kShipped;
};

/// `${...}` kept unresolved until all overrides are in.
struct Interpolation {
  std::string text;
  bool as_text = false;  // a resolver's argument in quotes: its value is a text, whatever it is
  bool operator==(const Interpolation&) const = default;
};

class Node;
/// The names on the way to a value, each as it is: it may be empty or hold dots.
using Names = std::vector<std::string>;
using Scalar = std::variant<std::monostate, bool, int64_t, double, std::string, Interpolation>;
using List = std::vector<Node>;
/// Ordered as written.
using Map = std::vector<std::pair<std::string, Node>>;

/// One value of the configuration tree with its origin: null, bool, int, float, string, an
/// interpolation, a list or a map. Knows layering, not fields. A value type: copies are deep.
class Node {
 public:
  Node() = default;  // null
  explicit Node(Scalar value, Origin origin = {});
  static Node list(List items, Origin origin = {});
  static Node map(Map items, Origin origin = {});

  bool is_null() const;
  bool is_map() const { return std::holds_alternative<Map>(value_); }
  bool is_list() const { return std::holds_alternative<List>(value_); }
  bool is_scalar() const { return !is_map() && !is_list(); }
  template <class T>
  const T* get_if() const {
    return std::get_if<T>(&value_);
  }

  const Origin& origin() const { return origin_; }
  void set_origin(Origin origin) { origin_ = std::move(origin); }

  const Map& items() const;  // expects is_map
  Map& items();
  const List& elements() const;  // expects is_list
  List& elements();

  /// The child at a dotted path ("a.b.c", list elements by number), or nullptr.
  const Node* find(std::string_view path) const;
  Node* find(std::string_view path);
  /// The child of a map by its whole name, dots and all, or nullptr.
  const Node* child(std::string_view name) const;
  /// The same for several names, one below the other.
  const Node* at(const Names& path) const;
  /// Sets the child at a dotted path, creating maps on the way. expects no scalar in between.
  void set(std::string_view path, Node value);
  bool erase(std::string_view path);

  /// "float", "string", ... for messages.
  std::string_view type_name() const;

 private:
  std::variant<std::monostate, bool, int64_t, double, std::string, Interpolation, List, Map> value_;
  Origin origin_;
};

/// The value as a user would write it on the command line: True, null, 1e-06, 'text', [a, b].
std::string to_inline(const Node& node);
/// The whole tree as YAML that reads back to itself.
std::string to_yaml(const Node& node);

/// OmegaConf's marker `???` for a value that somebody has to set.
bool is_missing(const Node& node);

/// An integer or a float as a float, or nothing.
std::optional<double> number(const Node& node);

/// Same values in the same order; origins are not compared, and nan equals nan.
bool same_values(const Node& a, const Node& b);

/// Whether a dotted key can hold it: not empty, and without a dot.
bool is_plain_name(std::string_view name);

/// A scalar, a list or an empty map, in `tree` as long as that lives.
struct Leaf {
  Names path;
  const Node* value = nullptr;
  /// For messages: `find` may lead elsewhere where a name is not plain.
  std::string key() const;
};
/// In order.
std::vector<Leaf> leaves(const Node& tree);
/// The dotted keys of those that `find` finds by it, all names being plain; in order.
std::vector<std::string> leaf_keys(const Node& tree);

/// Name among `candidates` with the smallest edit distance to `name`, or "" when none is near.
std::string nearest_name(std::string_view name, const std::vector<std::string>& candidates);
/// The same for dotted keys: a similar name in the same group first, then the same name in another
/// group (the one with most names of the key's path, and of those the first), then the most similar
/// key.
std::string nearest_key(std::string_view key, const std::vector<std::string>& candidates);

}  // namespace verlcpp::config
