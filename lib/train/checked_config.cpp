#include "train/checked_config.h"

#include <algorithm>
#include <cctype>
#include <utility>

#include "config/problems.h"
#include "train/key_kinds.h"
#include "train/outputs.h"
#include "train/validate.h"
#include "train/validate_checks.h"

namespace verlcpp::train {
namespace {

/// Whether the last name of `key` is a word of `text`.
bool speaks_of(const std::string& text, const std::string& key) {
  const auto of_word = [&](size_t at) {
    return at < text.size() &&
           (std::isalnum(static_cast<unsigned char>(text[at])) || text[at] == '_');
  };
  const std::string name = key.substr(key.rfind('.') + 1);
  for (size_t at = text.find(name); at != std::string::npos; at = text.find(name, at + 1)) {
    if ((at == 0 || !of_word(at - 1)) && !of_word(at + name.size())) return true;
  }
  return false;
}

/// What is wrong with the keys of `tree` but `unread`, whose values cannot be read.
std::vector<std::string> problems_beside(config::Node tree, const std::vector<std::string>& unread,
                                         const CheckOptions& options) {
  for (const std::string& key : unread) {
    const config::Node* shipped = shipped_values().find(key);
    if (shipped == nullptr) return {};
    tree.set(key, *shipped);
  }
  try {
    TrainConfig config = bind_train_config(tree);
    place_outputs(config, options.folder);
    Findings findings(tree);
    check_all(config, findings, options.assumed_response_length);
    std::vector<std::string> problems = findings.problems();
    std::erase_if(problems, [&](const std::string& text) {
      return std::any_of(unread.begin(), unread.end(),
                         [&](const std::string& key) { return speaks_of(text, key); });
    });
    return problems;
  } catch (const ConfigError&) {
    return {};  // there are other things in the way
  }
}

}  // namespace

CheckedConfig checked_config(config::Node& resolved_tree, const CheckOptions& options) {
  try {
    CheckedConfig checked{bind_train_config(resolved_tree), {}, {}};
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
  } catch (const UnreadableValues& unreadable) {
    std::vector<std::string> problems = unreadable.problems();
    for (std::string& problem : problems_beside(resolved_tree, unreadable.keys(), options)) {
      const bool said = std::find(problems.begin(), problems.end(), problem) != problems.end();
      if (!said) problems.push_back(std::move(problem));
    }
    config::throw_problems(problems);
    throw;
  }
}

}  // namespace verlcpp::train
