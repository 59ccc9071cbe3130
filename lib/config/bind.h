#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/error.h"
#include "config/old_keys.h"
#include "config/tree.h"

// Typed structs list their fields once:
//   struct Optim { double lr = 1e-6; template <class V> void fields(V& v) { v("lr", lr); } };
// and everything that needs the fields (binding, the key list, printing) is a visitor.

namespace verlcpp::config {

/// Behind the messages about a value that may also be null.
inline constexpr const char* kNullToo = "; null is valid too";

/// Converters from one node; throw ConfigError naming `path`, the value, its origin and the wanted
/// type. An int is accepted for a float. A null is only accepted for std::optional.
void read(const Node& node, const std::string& path, bool& out);
void read(const Node& node, const std::string& path, int64_t& out);
void read(const Node& node, const std::string& path, double& out);
void read(const Node& node, const std::string& path, std::string& out);
/// A list of strings, or one string (verl's train_files).
void read(const Node& node, const std::string& path, std::vector<std::string>& out);
void read(const Node& node, const std::string& path, std::vector<double>& out);
/// Any value, kept as it is (free-form maps; values checked elsewhere).
void read(const Node& node, const std::string& path, Node& out);

/// ConfigError for Python's None, which is a text, where null is valid.
void refuse_none(const Node& node, const std::string& path);

template <class T>
void read(const Node& node, const std::string& path, std::optional<T>& out) {
  if (node.is_null()) {
    out.reset();
    return;
  }
  refuse_none(node, path);
  try {
    read(node, path, out.emplace());
  } catch (const ConfigError& error) {
    throw ConfigError(error.what() + std::string(kNullToo));
  }
}

/// Keys that may be in a tree although no struct reads them.
struct KnownKeys {
  const Node* tree = nullptr;  // those of this tree, and any below its empty maps and its scalars
  std::set<std::string> free;  // groups of it that take further keys
  std::set<std::string> more;  // keys that it lacks
  OldKeys old_keys;            // for messages about others
  bool own_roots = false;      // users may add keys of their own at the root
  /// Whether something reads a key: those are offered in the place of one that is not known.
  std::function<bool(const std::string& key)> is_read = [](const std::string&) { return true; };
  /// Whether a key follows another unless somebody sets it: a mistake in that other is said once.
  std::function<bool(const std::string& key)> follows = [](const std::string&) { return false; };
  /// The interpolation by which a user lets a key follow another, with its origin, or "".
  std::function<std::string(const std::string& key)> link = [](const std::string&) {
    return std::string();
  };
  /// The override that deleted a key or what it is in, or "".
  std::function<std::string(const std::string& key)> deleted_by = [](const std::string&) {
    return std::string();
  };
};

/// Fills structs from a resolved tree. Collects *all* errors: wrong types, missing keys, and keys
/// in the tree that no struct knows (with the nearest name); `finish` throws one ConfigError with
/// all.
class Binder {
 public:
  Binder() = default;
  explicit Binder(KnownKeys known) : also_known_(std::move(known)) {}

  template <class T>
  void bind(const Node& node, const std::string& path, T& out) {
    Level level{*this, node, path, {}};
    out.fields(level);
    report_unknown(node, path, level.known);
  }
  /// Throws ConfigError listing every problem, several on numbered lines, if there was any.
  void finish() const;
  std::vector<std::string> problems() const;
  /// Those about keys that nobody knows, which hinder no value: the struct is filled all the same.
  std::vector<std::string> unknown_keys() const;
  /// Those that are missing or whose values are of another type, groups included.
  std::vector<std::string> unreadable_keys() const;

 private:
  struct Level {
    Binder& binder;
    const Node& node;
    std::string path;
    std::vector<std::string> known;
    template <class T>
    void operator()(const char* name, T& member) {
      known.emplace_back(name);
      binder.field(node, path.empty() ? name : path + "." + name, name, member);
    }
  };

  template <class T>
  void field(const Node& parent, const std::string& path, const char* name, T& member) {
    constexpr bool is_group = requires(Level & level) { member.fields(level); };
    const Node* child = parent.child(name);
    if (child == nullptr) return add_missing(path, name, is_group);
    if (is_missing(*child)) {
      add(path + " (" + child->origin().text + ") has no default: give it a value", path);
    } else if constexpr (is_group) {
      if (child->is_map()) {
        bind(*child, path, member);
      } else {
        add(path + " (" + child->origin().text + ") must be a group of keys, got " +
                to_inline(*child),
            path);
      }
    } else {
      try {
        read(*child, path, member);
      } catch (const ConfigError& e) {
        add(e.what(), path);
      }
    }
  }
  /// The missing keys of one group; a line for every group that lacks many.
  std::vector<std::string> lacking(const std::string& group) const;
  std::vector<std::string> missing_groups() const;
  /// Whether a key at the root is a user's own, for interpolations that name it. A group whose name
  /// is near a known one's, and which has a key of that one, is taken for a mistake.
  bool is_own_root(const std::string& name, const Node& value,
                   const std::vector<std::string>& roots) const;
  /// A key of another group that may have been meant; "" when none is near.
  std::string near_elsewhere(const std::string& key) const;
  /// The keys of `node`, which stands at `path`, that are neither in `known` nor in also_known_.
  void report_unknown(const Node& node, const std::string& path,
                      const std::vector<std::string>& known);

  void add_missing(const std::string& path, const std::string& name, bool is_group);
  /// `key`: of a wrong value, whose message begins with it.
  void add(std::string text, std::string key = "") {
    problems_.push_back({.text = std::move(text), .key = std::move(key)});
  }

  struct Problem {
    std::string text;
    std::string key = "";
    bool unknown_key = false;
    std::string group = "";    // of a key that is not there: what it is in, with the dot
    std::string missing = "";  // and its name
    /// What is wrong with which value from where, whatever key it reached.
    std::string cause() const;
  };
  KnownKeys also_known_;
  std::vector<Problem> problems_;
};

namespace detail {

/// The visitor behind `key_list`.
struct KeyCollector {
  std::vector<std::string>& keys;
  std::string prefix;
  template <class M>
  void operator()(const char* name, M& member) {
    const std::string path = prefix.empty() ? name : prefix + "." + name;
    if constexpr (requires(KeyCollector & c) { member.fields(c); }) {
      KeyCollector inner{keys, path};
      member.fields(inner);
    } else {
      keys.push_back(path);
    }
  }
};

}  // namespace detail

/// All dotted keys a struct reads, in order.
template <class T>
std::vector<std::string> key_list() {
  std::vector<std::string> keys;
  T object;
  detail::KeyCollector collector{keys, ""};
  object.fields(collector);
  return keys;
}

}  // namespace verlcpp::config
