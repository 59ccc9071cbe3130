#include "config/group_choices.h"

#include <algorithm>

#include "base/error.h"

namespace verlcpp::config {

GroupChoices::GroupChoices(const Repository& repository, const std::vector<Override>& overrides)
    : repository_(repository) {
  for (const Override& item : overrides) add(item);
}

void GroupChoices::add(const Override& item) {
  if (item.kind == Override::Kind::kDelete) return add_deletion(item);
  const std::string where = item.text + " (" + item.origin() + ")";
  const std::optional<Choices> choice = parse_choices(*item.value);
  if (!choice) {
    throw ConfigError(where + ": " + item.key +
                      " is a group of the defaults list and takes the name of one option, or a "
                      "list of names" +
                      available(item.key));
  }
  if (item.kind == Override::Kind::kForce) {
    throw ConfigError(where + ": a group cannot be forced with ++; write " + item.name() + "=" +
                      choice->name + ", or + to add it to the defaults list");
  }
  if (item.kind == Override::Kind::kAdd) {
    appended_.push_back({item.key, *choice, item.package, false, false, true, where, ""});
  } else {
    choices_[item.name()] = {*choice, item.value->origin(), item.text};
  }
}

void GroupChoices::add_deletion(const Override& item) {
  const auto* only_if = item.value ? item.value->get_if<std::string>() : nullptr;
  if (item.value && !item.value->is_null() && only_if == nullptr) {
    throw ConfigError(item.text + " (" + item.origin() + "): " + item.key + " is a group; ~" +
                      item.name() + " leaves it out, and ~" + item.name() +
                      "=NAME does so where it has this choice" + available(item.key));
  }
  deletions_[item.name()] = {
      {item.origin(), Origin::Source::kOverride}, item.text, only_if != nullptr ? *only_if : ""};
}

void GroupChoices::note_override(const std::string& key, const DefaultsEntry& entry) {
  choices_.try_emplace(
      key, Choice{entry.choice, {entry.origin, Origin::Source::kFile}, "override " + key});
}

void GroupChoices::choose(const std::string& key, DefaultsEntry& entry) {
  const auto found = choices_.find(key);
  if (found == choices_.end()) return;
  Choice& chosen = found->second;
  chosen.used = true;
  entry.choice = chosen.choice;
  entry.chosen_by = chosen.text + " (" + chosen.origin.text + ")";
}

bool GroupChoices::is_deleted(const std::string& key, const DefaultsEntry& entry) {
  const auto found = deletions_.find(key);
  if (found == deletions_.end()) return false;
  Deletion& deletion = found->second;
  if (!deletion.only_if.empty() && entry.choice.name != deletion.only_if) {
    deletion.instead = entry.choice.name + " (" + entry.origin + ")";
    return false;
  }
  deletion.used = true;
  return true;
}

std::string GroupChoices::left_out_by(const std::string& key) const {
  const auto deletion = deletions_.find(key);
  if (deletion != deletions_.end() && deletion->second.used) {
    return deletion->second.text + " (" + deletion->second.origin.text + ")";
  }
  const auto choice = choices_.find(key);
  const bool is_null = choice != choices_.end() && choice->second.choice.name == "null";
  return is_null ? choice->second.text + " (" + choice->second.origin.text + ")" : "";
}

void GroupChoices::note_choice(const std::string& key, const DefaultsEntry& entry) {
  const auto [known, first] = known_.insert({key, {entry.choice.name, entry.origin}});
  if (!first && known->second.name != entry.choice.name) fail_twice(key, entry);
}

void GroupChoices::note_leaf(const std::string& key, const DefaultsEntry& entry) {
  if (!leaves_.insert(key).second) fail_twice(key, entry);
}

void GroupChoices::fail_twice(const std::string& key, const DefaultsEntry& entry) const {
  const std::string& name = known_.at(key).name;
  throw ConfigError(entry.origin + ": the group " + key + " is already in the defaults list (" +
                    known_.at(key).origin + "); write `override " + key + ": " + name +
                    "` in a file, or " + key + "=" + name + " on the command line, to change it");
}

Node GroupChoices::known() const {
  Map items;
  for (const auto& [key, choice] : known_) {
    if (choice.name == "null") continue;
    items.emplace_back(key, Node(choice.name, Origin{choice.origin, Origin::Source::kFile}));
  }
  return Node::map(std::move(items));
}

void GroupChoices::check_all_used() const {
  for (const auto& [key, deletion] : deletions_) {
    if (deletion.used || deletion.instead.empty()) continue;
    throw ConfigError(deletion.text + " (" + deletion.origin.text + "): " + key + " is " +
                      deletion.instead);
  }
  const auto fail = [&](const std::string& key, const std::string& text, const Origin& origin,
                        const std::string& value) {
    const std::string group = key.substr(0, key.find('@'));
    const bool by_user = origin.source == Origin::Source::kOverride;
    std::string similar;
    for (const auto& [present, choice] : known_) {
      if (present.substr(0, present.find('@')) != group) continue;
      similar += (similar.empty() ? "; did you mean " : " or ") + present;
      if (by_user) similar += value;
    }
    throw ConfigError(text + " (" + origin.text + "): the group " + key +
                      " is not in the defaults list" +
                      (!similar.empty() ? similar + "?"
                       : by_user        ? "; + adds it"
                                        : ""));
  };
  for (const auto& [key, choice] : choices_) {
    if (!choice.used) fail(key, choice.text, choice.origin, "=" + choice.choice.name);
  }
  for (const auto& [key, deletion] : deletions_) {
    if (!deletion.used) fail(key, deletion.text, deletion.origin, "");
  }
}

std::vector<std::string> GroupChoices::listed_in(const std::string& name) const {
  std::vector<std::string> names;
  try {
    const std::optional<ConfigFile> file = repository_.load(name);
    for (const Node& entry : file ? file->defaults : List{}) {
      if (const auto* listed = entry.get_if<std::string>()) names.push_back(*listed);
    }
  } catch (const ConfigError&) {
    // Nobody asked for this file.
  }
  return names;
}

std::vector<std::string> GroupChoices::whole_options(const std::string& group) const {
  std::vector<std::string> options = repository_.options(group), parts;
  for (const std::string& option : options) {
    for (const std::string& part : listed_in(group + "/" + option)) parts.push_back(part);
  }
  std::erase_if(options, [&](const std::string& option) {
    return std::find(parts.begin(), parts.end(), option) != parts.end();
  });
  return options;
}

std::string GroupChoices::available(const std::string& group) const {
  const std::vector<std::string> options = whole_options(group);
  if (options.empty()) return "; the group " + group + " has no options";
  if (options.size() == 1) return "; only " + options[0] + " is available";
  std::string text;
  for (const std::string& option : options) text += (text.empty() ? "" : ", ") + option;
  return "; available: " + text;
}

std::string GroupChoices::asked(const std::string& key, const DefaultsEntry& entry) {
  return entry.chosen_by.empty() ? entry.origin + ": " + key : entry.chosen_by;
}

}  // namespace verlcpp::config
