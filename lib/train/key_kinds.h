#pragma once

#include <span>
#include <string>
#include <vector>

#include "config/bind.h"
#include "config/tree.h"

// What becomes of each key of verl's tree. A key that a struct of train_config.h binds is honoured
// unless a rule says otherwise: those of key_rules_bound.cpp speak about keys that are bound but
// read by nothing (scripts/check_keys.py), those of key_rules.cpp about all others, so that no key
// is dropped without a word.

namespace verlcpp::train {

enum class KeyKind {
  kHonoured,
  kNoEffect,  // accepted: changes no result here
  kRefused,   // accepted with its default only
  kMoved,     // a root of older releases: its value goes to the key that the reason names
};

struct KeyRule {
  /// Dotted. `*` is any text inside a name; a last name `**` is the group and every key below that
  /// no struct reads and no rule without `**` matches; a first name `**` is every key that ends so,
  /// whatever other rules say.
  const char* pattern;
  KeyKind kind;
  const char* reason;
};
std::span<const KeyRule> key_rules();
/// Those of them about keys that structs bind.
std::span<const KeyRule> bound_key_rules();

/// What is said about one key; more or less than one answer is a fault of the rules.
struct KeyAnswer {
  KeyKind kind;
  std::string reason;  // "" when honoured
};
std::vector<KeyAnswer> answers_about(const std::string& key);
/// True for a key that a struct reads, by itself or in a free-form group.
bool is_bound(const std::string& key);
/// True for a key that a struct has as a member.
bool is_member(const std::string& key);

/// The default configuration of the executable, and the same with every interpolation followed.
const config::Node& shipped_tree();
const config::Node& shipped_values();
/// The keys that may be in `tree` besides those that structs read; refers to `tree`.
config::KnownKeys known_keys(const config::Node& tree);
/// Whether something reads `key`; below override_transformer_config, the names that are read there.
bool is_read(const std::string& key);
/// Whether the default of `key`, or of a group above it, is an interpolation.
bool follows_another(const std::string& key);

/// Keys of verl's older releases that are gone, with what is there now.
const config::OldKeys& old_keys();
/// Values under the roots of older releases (kMoved) go to their new places, unless somebody set
/// those. Changes the tree, which may be unresolved, so that it prints what is used.
void apply_moved_keys(config::Node& tree);

/// Every key of the shipped tree with default, kind and reason, a line each with tabs between, and
/// a last line that counts them.
std::string explain_keys();

}  // namespace verlcpp::train
