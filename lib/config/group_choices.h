#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "config/defaults_entry.h"
#include "config/override.h"
#include "config/repository.h"

namespace verlcpp::config {

/// What the command line and the files choose for the groups of the defaults lists. A group is
/// known by its key: `group`, or `group@package` when the package is not the group's own.
class GroupChoices {
 public:
  /// `overrides` are those whose key is a group.
  GroupChoices(const Repository& repository, const std::vector<Override>& overrides);

  /// What `+group=name` adds to the primary file's list.
  const std::vector<DefaultsEntry>& appended() const { return appended_; }
  /// `override group: name` in a file; the command line and what came before it stay.
  void note_override(const std::string& key, const DefaultsEntry& entry);
  /// Puts the choice for `key` in, if there is one.
  void choose(const std::string& key, DefaultsEntry& entry);
  /// True when `~key` or `~key=name` leaves the group out.
  bool is_deleted(const std::string& key, const DefaultsEntry& entry);
  /// The deletion or the null that left out the group of that key, or "".
  std::string left_out_by(const std::string& key) const;
  /// A group has one choice everywhere. Throws ConfigError for a second one.
  void note_choice(const std::string& key, const DefaultsEntry& entry);
  /// A file that lists no others comes once. Throws ConfigError for the second time.
  void note_leaf(const std::string& key, const DefaultsEntry& entry);
  /// The choices made so far, by key; a group that is chosen as null has none.
  Node known() const;
  /// Throws ConfigError for an override or a deletion of a group that is in no list.
  void check_all_used() const;

  /// "; available: a, b"
  std::string available(const std::string& group) const;
  /// Who chose `entry`, for messages: the override, or the line of the list.
  static std::string asked(const std::string& key, const DefaultsEntry& entry);

 private:
  struct Choice {
    Choices choice;
    Origin origin;
    std::string text;  // as the user wrote it
    bool used = false;
  };
  struct Deletion {
    Origin origin;
    std::string text;
    std::string only_if;  // the name that must be there
    bool used = false;
    std::string instead = {};  // what is there
  };
  struct Known {
    std::string name, origin;
  };

  /// The files that the defaults list of `name` names; none where it cannot be read.
  std::vector<std::string> listed_in(const std::string& name) const;
  /// The options of a group without those that are only parts of others: actor.yaml of
  /// megatron_actor.yaml.
  std::vector<std::string> whole_options(const std::string& group) const;
  void add(const Override& item);
  void add_deletion(const Override& item);
  [[noreturn]] void fail_twice(const std::string& key, const DefaultsEntry& entry) const;

  const Repository& repository_;
  std::map<std::string, Choice> choices_;
  std::map<std::string, Deletion> deletions_;
  std::map<std::string, Known> known_;
  std::set<std::string> leaves_;
  std::vector<DefaultsEntry> appended_;
};

}  // namespace verlcpp::config
