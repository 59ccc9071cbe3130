#include "train/checked_config.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "config/interpolation.h"
#include "train/key_kinds.h"
#include "train/outputs.h"
#include "train/validate.h"
#include "train/validate_checks.h"

namespace verlcpp::train {
namespace {

/// Whether `a` holds what `b` does, from the same place: the one follows the other.
bool same_value(const config::Node& a, const config::Node& b) {
  return a.origin().text == b.origin().text && config::same_values(a, b);
}

/// Collects what is wrong with a tree of which some keys cannot be read.
class Report {
 public:
  Report(config::Node tree, const CheckOptions& options)
      : tree_(std::move(tree)), options_(options), silent_(options.overrides.keys) {
    restore(options.overrides.keys);
    replace(options.interpolations.keys);
  }

  /// ConfigError with what was said before and what is found.
  void finish() {
    const UnreadableValues unreadable = bind();
    for (const std::string& text : options_.overrides.texts) say(text);
    for (const std::string& text : options_.interpolations.texts) {
      if (!is_said(text, unreadable.keys())) say(text);
    }
    for (const std::string& text : unreadable.problems()) say(text);
    replace(unreadable.keys());
    try {
      check();
    } catch (const UnreadableValues&) {
      // Shipped values are readable; without them there is no more to be said.
    } catch (const ConfigError& error) {
      say(error.what());
    }
    if (texts_.empty() && options_.overrides.keys.empty()) {
      texts_ = options_.interpolations.texts;  // a tree with holes never runs
    }
    config::throw_problems(texts_);
  }

 private:
  void say(const std::string& text) {
    if (std::find(texts_.begin(), texts_.end(), text) == texts_.end()) texts_.push_back(text);
  }

  /// Whether an interpolation leads to a key that an override would have made, or to one that is
  /// said to be missing itself.
  bool is_said(const std::string& text, const std::vector<std::string>& unreadable) const {
    const auto absent = options_.interpolations.absent.find(text);
    if (absent == options_.interpolations.absent.end()) return false;
    const auto at_or_above = [&](const std::string& key) {
      return absent->second == key || absent->second.starts_with(key + ".");
    };
    const std::vector<std::string>& left_out = options_.overrides.keys;
    return std::any_of(unreadable.begin(), unreadable.end(), at_or_above) ||
           std::any_of(left_out.begin(), left_out.end(), at_or_above);
  }

  /// Puts the shipped value where an override was left out because one before it deleted the key.
  void restore(const std::vector<std::string>& keys) {
    for (const std::string& key : keys) {
      for (const std::string& leaf : config::leaf_keys(shipped_values())) {
        const bool is_meant = leaf == key || leaf.starts_with(key + ".");
        if (is_meant && has_room(leaf)) tree_.set(leaf, *shipped_values().find(leaf));
      }
    }
  }

  /// Whether the tree lacks a key, and no value stands where a group of it would have to.
  bool has_room(const std::string& key) const {
    for (size_t dot = key.find('.'); dot != std::string::npos; dot = key.find('.', dot + 1)) {
      const config::Node* above = tree_.find(std::string_view(key).substr(0, dot));
      if (above == nullptr) return true;
      if (!above->is_map()) return false;
    }
    return tree_.find(key) == nullptr;
  }

  /// Whether the shipped value of `key` is whatever `other` has.
  static bool follows_in_files(const std::string& key, const std::string& other) {
    const config::Node* node = shipped_tree().find(key);
    const auto* link = node == nullptr ? nullptr : node->get_if<config::Interpolation>();
    return link != nullptr && config::followed_key(*link) == other;
  }

  /// Puts the shipped value in the place of each key and of those that follow it.
  void replace(const std::vector<std::string>& keys) {
    std::vector<std::string> all;
    for (const std::string& each : keys) {
      const std::string key = without_index(each);
      all.push_back(key);
      const config::Node* node = tree_.find(key);
      if (node != nullptr && is_shipped(node->origin())) continue;
      for (const std::string& other : config::leaf_keys(tree_)) {
        const config::Node* value = tree_.find(other);
        if (value == nullptr) continue;
        const bool follows = node != nullptr
                                 ? same_value(*value, *node)
                                 : is_shipped(value->origin()) && follows_in_files(other, key);
        if (follows) all.push_back(other);
      }
    }
    for (const std::string& key : all) {
      const config::Node* shipped = shipped_values().find(key);
      if (shipped != nullptr) tree_.set(key, *shipped);
      silent_.push_back(key);
    }
  }

  /// Of an element of a list, the key of the list.
  std::string without_index(const std::string& key) const {
    for (size_t dot = key.find('.'); dot != std::string::npos; dot = key.find('.', dot + 1)) {
      const config::Node* above = tree_.find(std::string_view(key).substr(0, dot));
      if (above != nullptr && above->is_list()) return key.substr(0, dot);
    }
    return key;
  }

  /// What cannot be read.
  UnreadableValues bind() {
    try {
      bind_train_config(tree_, options_.history);
    } catch (const UnreadableValues& unreadable) {
      return unreadable;
    } catch (const ConfigError& error) {
      return {{error.what()}, {}};
    }
    return {{}, {}};
  }

  void check() {
    TrainConfig config = bind_train_config(tree_, options_.history);
    place_outputs(config, options_.folder);
    Findings findings(tree_);
    check_all(config, findings, options_.assumed_response_length);
    for (const std::string& text : findings.apart_from(silent_)) say(text);
  }

  config::Node tree_;
  const CheckOptions& options_;
  std::vector<std::string> texts_;
  std::vector<std::string> silent_;  // keys of which nothing more is said
};

}  // namespace

CheckedConfig checked_config(config::Node& resolved_tree, const CheckOptions& options) {
  if (!options.overrides.texts.empty() || !options.interpolations.texts.empty()) {
    report_problems(resolved_tree, options);
  }
  try {
    CheckedConfig checked{bind_train_config(resolved_tree, options.history), {}, {}};
    place_outputs(checked.config, options.folder);
    if (options.dry_run) {
      DryRunFindings findings =
          validate_dry_run(checked.config, resolved_tree, options.assumed_response_length);
      checked.warnings = std::move(findings.warnings);
      checked.limits = std::move(findings.limits);
    } else {
      checked.warnings = validate(checked.config, resolved_tree);
    }
    return checked;
  } catch (const UnreadableValues&) {
    report_problems(resolved_tree, options);
    throw;
  }
}

void report_problems(const config::Node& resolved_tree, const CheckOptions& options) {
  Report(resolved_tree, options).finish();
}

}  // namespace verlcpp::train
