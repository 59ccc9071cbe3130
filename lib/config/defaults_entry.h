#pragma once

#include <optional>
#include <string>
#include <vector>

#include "config/tree.h"

// One line of a defaults list, and the arithmetic of group paths ("actor/../optim") and packages
// ("actor_rollout_ref.actor").

namespace verlcpp::config {

/// What a group is set to: one option, several, or none ("null").
struct Choices {
  std::string name;
  std::optional<std::vector<std::string>> several;
  bool is_interpolation = false;  // the name is
};

/// One element of a defaults list; `group` is empty for `_self_` and for a bare config name, which
/// is the choice.
struct DefaultsEntry {
  std::string group;
  Choices choice;
  std::optional<std::string> package;
  bool is_override = false, is_optional = false;
  bool is_appended = false;  // by the command line
  std::string origin;
  std::string chosen_by;  // the override that made the choice, or ""

  bool is_self() const { return group.empty() && choice.name == "_self_"; }
};

/// Reads the value of a group, or nothing when it is neither null, nor a name, nor a list of names.
std::optional<Choices> parse_choices(const Node& node);

/// Reads `name`, `name@package`, `group: name`, `group@package: name` with `override` or `optional`
/// before the group. Throws ConfigError with the line's place.
DefaultsEntry parse_defaults_entry(const Node& node);

/// Folds `..` and `.`; a leading `/` drops `folder`. Throws ConfigError naming `origin` when it
/// leads out.
std::string join_path(const std::string& folder, const std::string& path,
                      const std::string& origin);
/// "actor" for "actor/megatron_actor".
std::string folder_of(const std::string& path);
/// a/b -> a.b
std::string dotted(std::string path);
/// `package` is relative to `parent` unless it begins with `_global_`.
std::string join_package(const std::string& parent, const std::string& package);

}  // namespace verlcpp::config
