#include "config/defaults_list.h"

#include <algorithm>
#include <filesystem>
#include <map>

#include "base/error.h"
#include "config/defaults_entry.h"

namespace verlcpp::config {

namespace {

/// The file whose list is being expanded.
struct Place {
  std::string folder;   // "actor" for actor/megatron_actor.yaml
  std::string package;  // where its keys go
};

struct Seen {
  std::string origin, name;
};

struct Choice {
  std::string name;  // "null" is no file
  std::string origin;
  std::string text;          // as the user wrote it
  std::string only_if = {};  // a deletion's condition: the name that must be there
  bool used = false;
};

/// Headers are absolute with or without `_global_`; `_here_` has no meaning in one.
std::string from_header(const std::string& header) {
  return header == "_here_" ? header : join_package("", header);
}

/// What a primary file that is not there may have been meant to be.
std::string other_primary(const std::string& name, const std::vector<std::string>& options) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  const fs::path file = name + ".yaml";
  if (fs::is_regular_file(file, ignored)) {
    const std::string folder = file.parent_path().empty() ? "." : file.parent_path().string();
    return "; to read " + file.string() + ": --config-dir=" + folder +
           " --config-name=" + file.stem().string();
  }
  std::string near = nearest_name(name, options);
  for (const std::string& option : options) {
    if (near.empty() && name.ends_with("_" + option)) near = option;
  }
  return near.empty() ? "" : "; did you mean " + near + "?";
}

class Expander {
 public:
  Expander(const Repository& repository, const std::vector<Override>& overrides)
      : repository_(repository) {
    for (const Override& item : overrides) add_override(item);
  }

  std::vector<Layer> expand(const std::string& primary) {
    const std::string folder = folder_of(primary);
    std::optional<ConfigFile> file = repository_.load(primary);
    if (!file) {
      throw ConfigError("there is no " + primary + ".yaml in " + repository_.places() +
                        other_primary(primary, repository_.options(folder)));
    }
    const std::string package = file->package ? from_header(*file->package) : dotted(folder);
    if (file->package && !package.empty()) {
      header_note_ = "; '# @package " + *file->package + "' in " + primary +
                     ".yaml puts that file, with its defaults, below " + package +
                     ": remove the line, or write # @package _global_";
    }
    expand_file(primary, *file, {folder, package});
    for (const DefaultsEntry& entry : appended_) expand_group(entry, {});
    check_all_used();
    return std::move(layers_);
  }

 private:
  void add_override(const Override& item) {
    const std::string key = override_key(item.key, item.package, {}, item.origin());
    if (item.kind == Override::Kind::kDelete) {
      const auto* only_if = item.value ? item.value->get_if<std::string>() : nullptr;
      deletions_[key] = {"null", item.origin(), item.text, only_if ? *only_if : ""};
      return;
    }
    const auto* name = item.value->get_if<std::string>();
    if (name == nullptr && !item.value->is_null()) {
      throw ConfigError(item.text + " (" + item.origin() + "): " + item.key +
                        " is a group of the defaults list and takes the name of one option" +
                        available(item.key));
    }
    const std::string choice = name == nullptr ? "null" : *name;
    if (item.kind == Override::Kind::kAdd) {
      appended_.push_back(
          {item.key, choice, item.package, false, false, item.text + " (" + item.origin() + ")"});
    } else if (item.kind == Override::Kind::kForce) {
      throw ConfigError(item.text + " (" + item.origin() +
                        "): a group cannot be forced with ++; write " + item.name() + "=" + choice +
                        ", or + to add it to the defaults list");
    } else {
      choices_[key] = {choice, item.origin(), item.text};
    }
  }

  /// `group`, or `group@package` when the package is not the group's own.
  static std::string override_key(const std::string& group,
                                  const std::optional<std::string>& package, const Place& place,
                                  const std::string& origin) {
    const std::string path = join_path(place.folder, group, origin);
    const std::string final_package = package_of(group, package, std::nullopt, place, origin);
    if (final_package == dotted(path)) return path;
    return path + "@" + (final_package.empty() ? "_global_" : final_package);
  }

  static std::string package_of(const std::string& group, const std::optional<std::string>& package,
                                const std::optional<std::string>& header, const Place& place,
                                const std::string& origin) {
    if (package == "_group_") return dotted(join_path(place.folder, group, origin));
    if (package) return join_package(place.package, *package);
    if (header) return from_header(*header);
    std::string relative = group;
    while (relative.starts_with("../")) relative.erase(0, 3);
    return join_package(place.package, dotted(join_path("", relative, origin)));
  }

  void expand_file(const std::string& path, const ConfigFile& file, const Place& place) {
    if (std::find(stack_.begin(), stack_.end(), path) != stack_.end()) {
      std::string chain;
      for (const std::string& above : stack_) chain += above + ".yaml -> ";
      throw ConfigError("the defaults lists form a cycle: " + chain + path + ".yaml");
    }
    stack_.push_back(path);
    std::vector<DefaultsEntry> entries;
    for (const Node& node : file.defaults) entries.push_back(parse_defaults_entry(node));
    const auto is_self = [](const DefaultsEntry& e) {
      return e.group.empty() && e.name == "_self_";
    };
    const auto self = std::find_if(entries.begin(), entries.end(), is_self);
    if (self != entries.end()) {
      const auto second = std::find_if(self + 1, entries.end(), is_self);
      if (second != entries.end()) {
        throw ConfigError(second->origin + ": _self_ comes twice in the defaults list");
      }
    } else {
      entries.push_back({"", "_self_", std::nullopt, false, false, ""});
    }

    for (const DefaultsEntry& entry : entries) note_choice(entry, place);
    for (const DefaultsEntry& entry : entries) {
      if (entry.is_override) continue;
      if (is_self(entry)) {
        layers_.push_back({place.package, file.body});
      } else if (entry.group.empty()) {
        expand_config(entry, place);
      } else {
        expand_group(entry, place);
      }
    }
    stack_.pop_back();
  }

  /// Outer files come first, and the command line before them: an existing choice stays.
  void note_choice(const DefaultsEntry& entry, const Place& place) {
    if (entry.group.empty()) return;
    const std::string key = override_key(entry.group, entry.package, place, entry.origin);
    if (entry.is_override) {
      choices_.try_emplace(key, Choice{entry.name, entry.origin, "override " + key});
    }
    if (entry.name.find("${") != std::string::npos) return;
    const auto chosen = choices_.find(key);
    known_.try_emplace(key, chosen == choices_.end() ? entry.name : chosen->second.name);
  }

  void expand_config(const DefaultsEntry& entry, const Place& place) {
    const std::string path = join_path(place.folder, fill_in(entry), entry.origin);
    const std::optional<ConfigFile> file = repository_.load(path);
    if (!file && entry.is_optional) return;
    if (!file) {
      const std::string folder = folder_of(path);
      const std::string near = nearest_name(path.substr(folder.empty() ? 0 : folder.size() + 1),
                                            repository_.options(folder));
      throw ConfigError(entry.origin + ": there is no " + path + ".yaml in " +
                        repository_.places() +
                        (repository_.load(entry.name) ? "; did you mean /" + entry.name + "?"
                         : near.empty()               ? ""
                                                      : "; did you mean " + near + "?"));
    }
    const std::string package =
        package_of(folder_of(entry.name), entry.package, file->package, place, entry.origin);
    expand_file(path, *file, {folder_of(path), package});
  }

  void expand_group(DefaultsEntry entry, const Place& place) {
    const std::string key = override_key(entry.group, entry.package, place, entry.origin);
    const auto chosen = choices_.find(key);
    std::string asked = entry.origin + ": " + key;
    if (chosen != choices_.end()) {
      chosen->second.used = true;
      entry.name = chosen->second.name;
      asked = chosen->second.text + " (" + chosen->second.origin + ")";
    }
    entry.name = fill_in(entry);
    if (is_deleted(key, entry)) entry.name = "null";
    known_[key] = entry.name;
    const auto [earlier, first] = seen_.insert({key, {entry.origin, entry.name}});
    if (!first && (entry.name != "null" || earlier->second.name != "null")) {
      throw ConfigError(entry.origin + ": the group " + key + " is already in the defaults list (" +
                        earlier->second.origin + "); write `override " + key + ": " + entry.name +
                        "` in a file, or " + key + "=" + entry.name +
                        " on the command line, to change it");
    }
    if (entry.name == "null") return;
    if (entry.name == "???") {
      throw ConfigError(asked + " has to be chosen: write " + key + "=NAME" +
                        available(join_path(place.folder, entry.group, entry.origin)));
    }
    const std::string group = join_path(place.folder, entry.group, entry.origin);
    const std::string path = join_path(group, entry.name, entry.origin);
    const std::optional<ConfigFile> file = repository_.load(path);
    if (!file && entry.is_optional) return;
    if (!file) {
      throw ConfigError(asked + ": there is no option " + entry.name + available(group));
    }
    expand_file(path, *file,
                {folder_of(path),
                 package_of(entry.group, entry.package, file->package, place, entry.origin)});
  }

  bool is_deleted(const std::string& key, const DefaultsEntry& entry) {
    const auto found = deletions_.find(key);
    if (found == deletions_.end()) return false;
    Choice& deletion = found->second;
    deletion.used = true;
    if (!deletion.only_if.empty() && entry.name != deletion.only_if) {
      throw ConfigError(deletion.text + " (" + deletion.origin + "): " + key + " is " + entry.name +
                        " (" + entry.origin + ")");
    }
    return true;
  }

  /// The options of a group without those that are only parts of others: actor.yaml of
  /// megatron_actor.yaml.
  std::vector<std::string> choices_of(const std::string& group) const {
    std::vector<std::string> options = repository_.options(group), parts;
    for (const std::string& option : options) {
      const std::optional<ConfigFile> file = repository_.load(group + "/" + option);
      for (const Node& entry : file ? file->defaults : List{}) {
        if (const auto* name = entry.get_if<std::string>()) parts.push_back(*name);
      }
    }
    std::erase_if(options, [&](const std::string& option) {
      return std::find(parts.begin(), parts.end(), option) != parts.end();
    });
    return options;
  }

  std::string available(const std::string& group) const {
    const std::vector<std::string> options = choices_of(group);
    if (options.empty()) return "; the group " + group + " has no options";
    if (options.size() == 1) return "; only " + options[0] + " is available";
    std::string text;
    for (const std::string& option : options) text += (text.empty() ? "" : ", ") + option;
    return "; available: " + text;
  }

  /// Replaces `${group}` by that group's choice.
  std::string fill_in(const DefaultsEntry& entry) const {
    std::string text = entry.name;
    for (size_t start = text.find("${"); start != std::string::npos;
         start = text.find("${", start)) {
      const size_t end = text.find('}', start);
      const std::string group = text.substr(start + 2, end - start - 2);
      const auto known = known_.find(group);
      if (end == std::string::npos || known == known_.end()) {
        throw ConfigError(entry.origin + ": " + entry.name +
                          " must name a group chosen earlier in the defaults list" + header_note_);
      }
      text.replace(start, end + 1 - start, known->second);
      start += known->second.size();
    }
    return text;
  }

  void check_all_used() const {
    check_used(choices_);
    check_used(deletions_);
  }

  void check_used(const std::map<std::string, Choice>& choices) const {
    for (const auto& [key, choice] : choices) {
      if (choice.used) continue;
      std::string message = choice.text + " (" + choice.origin + "): the group " + key +
                            " is not in the defaults list";
      const std::string group = key.substr(0, key.find('@'));
      const bool by_user = choice.origin.starts_with("override ");
      std::string similar;
      for (const auto& [present, where] : seen_) {
        if (present.substr(0, present.find('@')) != group) continue;
        similar += (similar.empty() ? "; did you mean " : " or ") + present;
        if (by_user) similar += "=" + choice.name;
      }
      throw ConfigError(message + (!similar.empty() ? similar + "?"
                                   : by_user        ? "; + adds it"
                                                    : ""));
    }
  }

  const Repository& repository_;
  std::string header_note_;                // on a primary file that is put below a group
  std::map<std::string, Choice> choices_;  // by group key: overrides of the defaults list
  std::map<std::string, Choice> deletions_;
  std::map<std::string, std::string> known_;  // by group key: for `${group}`
  std::map<std::string, Seen> seen_;          // by group key: where it was listed
  std::vector<DefaultsEntry> appended_;
  std::vector<std::string> stack_;
  std::vector<Layer> layers_;
};

}  // namespace

std::vector<Layer> expand_defaults(const Repository& repository, const std::string& primary,
                                   const std::vector<Override>& group_overrides) {
  return Expander(repository, group_overrides).expand(primary);
}

}  // namespace verlcpp::config
