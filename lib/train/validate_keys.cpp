#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "config/bind.h"
#include "config/compose.h"
#include "config/interpolation.h"
#include "train/key_kinds.h"
#include "train/validate_checks.h"

namespace verlcpp::train {
namespace {

/// Equal as settings: 2 is 2.0.
bool same_setting(const config::Node& a, const config::Node& b) {
  if (const auto x = config::number(a), y = config::number(b); x && y) return *x == *y;
  return config::same_values(a, b);
}

bool is_honoured(const std::string& key) {
  const std::vector<KeyAnswer> answers = answers_about(key);
  return !answers.empty() && answers[0].kind == KeyKind::kHonoured;
}

/// Puts the shipped interpolations back where `tree` has a value that is not honoured.
void put_back(const config::Node& shipped, const std::string& path, config::Node& tree) {
  if (shipped.is_map()) {
    for (const auto& [name, child] : shipped.items()) {
      config::Node* own = tree.is_map() ? tree.find(name) : nullptr;
      if (own != nullptr) put_back(child, path.empty() ? name : path + "." + name, *own);
    }
  } else if (shipped.get_if<config::Interpolation>() != nullptr && !is_honoured(path)) {
    tree = shipped;
  }
}

/// What the keys that nobody set follow to, given what was set.
config::Node followed(const config::Node& tree) {
  config::Node open = tree;
  put_back(shipped_tree(), "", open);
  try {
    return config::resolve(open);
  } catch (const ConfigError&) {
    return {};  // a key that one of them follows was deleted: all of them were set
  }
}

/// Sorts the keys that somebody set by what becomes of them.
class KeyCheck {
 public:
  explicit KeyCheck(Findings& findings) : findings_(findings) {}

  void walk(const config::Node& node, const std::string& key) {
    const bool group = node.is_map() && !node.items().empty();
    if (is_own_root(node, key)) {
      own_roots_.push_back(key + " (" + node.origin().text + ")");
      return;
    }
    if (group && (is_shipped(node.origin()) || !moves(key))) {
      for (const auto& [name, child] : node.items()) {
        walk(child, key.empty() ? name : key + "." + name);
      }
    } else if (!is_shipped(node.origin())) {
      visit(node, key);
    }
  }

  /// One line for all keys without effect, one for the user's own.
  void finish() {
    if (!without_effect_.empty()) {
      findings_.warn((without_effect_.size() == 1 ? "this key has" : "these keys have") +
                     std::string(" no effect here (--explain-keys says why): ") +
                     join(without_effect_));
    }
    if (own_roots_.empty()) return;
    findings_.warn(join(own_roots_) + (own_roots_.size() == 1 ? " is no key" : " are no keys") +
                   " of verl's, and of use only where a ${...} refers to " +
                   (own_roots_.size() == 1 ? "it" : "them"));
  }

 private:
  /// A key at the root that nobody but its user knows.
  static bool is_own_root(const config::Node& node, const std::string& key) {
    return !key.empty() && key.find('.') == std::string::npos && !is_shipped(node.origin()) &&
           shipped_tree().find(key) == nullptr && answers_about(key).empty();
  }

  void visit(const config::Node& node, const std::string& key) {
    const std::vector<KeyAnswer> answers = answers_about(key);
    if (answers.empty() || answers[0].kind == KeyKind::kHonoured) return;
    const config::Node* by_default = default_of(key);
    const bool changed = by_default == nullptr || !same_setting(node, *by_default);
    if (!changed && by_default->origin().text == node.origin().text) return;  // it follows another
    const KeyAnswer& answer = answers[0];
    if (answer.kind == KeyKind::kMoved) {
      if (changed) moved(node, key, answer.reason);
    } else if (answer.kind == KeyKind::kRefused) {
      // Of keys that a struct has its own checks say it, with what would be valid.
      const config::Node* valid = shipped_values().find(key);
      const bool refused =
          follows_refused(key) ? valid != nullptr && !same_setting(node, *valid) : changed;
      if (refused && !is_member(key)) refuse(node, key, answer.reason);
    } else if (changed || node.origin().source == config::Origin::Source::kOverride) {
      without_effect_.push_back(key + " (" + node.origin().text + ")");
    }
  }

  /// Whether a key's default is what a refused key says: then both have to be what is shipped.
  static bool follows_refused(const std::string& key) {
    const config::Node* shipped = shipped_tree().find(key);
    const auto* source = shipped == nullptr ? nullptr : shipped->get_if<config::Interpolation>();
    if (source == nullptr) return false;
    const auto followed = config::followed_key(*source);
    const std::vector<KeyAnswer> answers =
        followed ? answers_about(*followed) : std::vector<KeyAnswer>{};
    return !answers.empty() && answers[0].kind == KeyKind::kRefused;
  }

  /// True for a group that moves as a whole.
  static bool moves(const std::string& key) {
    const std::vector<KeyAnswer> answers = answers_about(key);
    return !answers.empty() && answers[0].kind == KeyKind::kMoved;
  }

  /// What `key` would be if nobody had set it, but other keys as they are; nullptr for a free key.
  const config::Node* default_of(const std::string& key) {
    if (!follows_another(key)) return shipped_values().find(key);
    if (!followed_) followed_ = followed(findings_.tree());
    const config::Node* source = followed_->is_map() ? followed_->find(key) : nullptr;
    return source != nullptr ? source : shipped_values().find(key);
  }

  void moved(const config::Node& node, const std::string& key, const std::string& place) {
    const config::Node* now = findings_.tree().find(place);
    const bool taken = now != nullptr && config::same_values(*now, node);
    findings_.warn(key + " (" + node.origin().text + "), a key of older releases, " +
                   (taken ? "is read as " + place
                          : "has no effect: " + findings_.about(place) + " is set too"));
  }

  void refuse(const config::Node& node, const std::string& key, const std::string& reason) {
    const config::Node* valid = shipped_values().find(key);
    findings_.add_text(
        key + " = " + config::to_inline(node) + " (" + node.origin().text + "): " + reason + "; " +
        (valid == nullptr ? "leave it out" : "must be " + config::to_inline(*valid)));
  }

  Findings& findings_;
  std::optional<config::Node> followed_;
  std::vector<std::string> without_effect_, own_roots_;
};

}  // namespace

void check_keys(Findings& findings) {
  KeyCheck check(findings);
  check.walk(findings.tree(), "");
  check.finish();
}

}  // namespace verlcpp::train
