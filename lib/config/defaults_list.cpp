#include "config/defaults_list.h"

#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "config/defaults_entry.h"
#include "config/group_choices.h"
#include "config/hydra_keys.h"
#include "config/interpolation.h"
#include "config/problems.h"

namespace verlcpp::config {

namespace {

using Layers = std::vector<Layer>;

/// The file whose list is being expanded.
struct Place {
  std::string folder;            // "actor" for actor/megatron_actor.yaml
  std::string package;           // where its keys go
  bool is_interpolated = false;  // its choice, or that of a file above it
};

/// Headers are absolute with or without `_global_`; `_here_` has no meaning in one.
std::string from_header(const std::string& header) {
  return header == "_here_" ? header : join_package("", header);
}

std::string package_of(const std::string& group, const DefaultsEntry& entry,
                       const std::optional<std::string>& header, const Place& place) {
  if (entry.package == "_group_") return dotted(join_path(place.folder, group, entry.origin));
  if (entry.package) return join_package(place.package, *entry.package);
  if (header) return from_header(*header);
  std::string relative = group;
  while (relative.starts_with("../")) relative.erase(0, 3);
  return join_package(place.package, dotted(join_path("", relative, entry.origin)));
}

std::string key_of(const DefaultsEntry& entry, const Place& place) {
  const std::string path = join_path(place.folder, entry.group, entry.origin);
  const std::string package = package_of(entry.group, entry, std::nullopt, place);
  if (package == dotted(path)) return path;
  return path + "@" + (package.empty() ? "_global_" : package);
}

void append(Layers& layers, Layers more) {
  layers.insert(layers.end(), std::make_move_iterator(more.begin()),
                std::make_move_iterator(more.end()));
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

/// As in Hydra the entries of a list are expanded from the last to the first, so that an `override`
/// in a file reaches the entries in front of that file; those whose choice is an interpolation come
/// after the others.
class Expander {
 public:
  Expander(const Repository& repository, const std::vector<Override>& overrides,
           std::vector<std::string>& unread)
      : repository_(repository), choices_(repository, overrides), unread_(unread) {}

  Layers expand(const std::string& primary) {
    const std::string folder = folder_of(primary);
    const std::optional<ConfigFile> file = repository_.load(primary);
    if (!file) {
      throw ConfigError("there is no " + primary + ".yaml in " + repository_.places() +
                        other_primary(primary, repository_.options(folder)));
    }
    const std::string package = file->package ? from_header(*file->package) : dotted(folder);
    if (file->package && !package.empty()) {
      header_note_ = "; '# @package " + *file->package + "' in " + primary +
                     ".yaml puts that file, with its defaults, below " + package +
                     ": remove the line, and write its keys as " + package + ": {KEY: VALUE}";
    } else if (!folder.empty()) {
      header_note_ = "; " + primary +
                     ".yaml lies in a folder of --config-dir and is read as part of "
                     "the group " +
                     folder + ": --config-dir=DIR/" + folder +
                     " --config-name=" + primary.substr(folder.size() + 1) + " reads it as a run";
    }
    Layers layers = expand_file(primary, *file, {folder, package});
    choices_.check_all_used();
    return layers;
  }

 private:
  /// The layers of a file and of those it lists.
  Layers expand_file(const std::string& path, const ConfigFile& file, const Place& place) {
    if (std::find(stack_.begin(), stack_.end(), path) != stack_.end()) {
      std::string chain;
      for (const std::string& above : stack_) chain += above + ".yaml -> ";
      throw ConfigError("the defaults lists form a cycle: " + chain + path + ".yaml");
    }
    std::vector<DefaultsEntry> entries = entries_of(file);
    if (stack_.empty()) {
      entries.insert(entries.end(), choices_.appended().begin(), choices_.appended().end());
    }
    note_overrides(entries, place);
    stack_.push_back(path);
    std::vector<Layers> parts(entries.size());
    std::vector<size_t> interpolated;
    for (size_t i = entries.size(); i-- > 0;) {
      DefaultsEntry& entry = entries[i];
      if (entry.is_override) continue;
      if (!entry.group.empty()) choices_.choose(key_of(entry, place), entry);
      if (entry.is_self()) {
        parts[i] = {{place.package, file.body, stack_.size() == 1}};
      } else if (entry.choice.is_interpolation) {
        interpolated.push_back(i);
      } else {
        parts[i] = expand_entry(entry, place);
      }
    }
    expand_interpolated(interpolated, entries, place, parts);
    stack_.pop_back();
    Layers layers;
    for (Layers& part : parts) append(layers, std::move(part));
    return layers;
  }

  /// The entries of a file, `_self_` included.
  std::vector<DefaultsEntry> entries_of(const ConfigFile& file) {
    std::vector<DefaultsEntry> entries;
    bool has_self = false;
    for (const Node& node : file.defaults) {
      entries.push_back(parse_defaults_entry(node));
      const std::string& group = entries.back().group;
      if (is_hydra_key(group.starts_with('/') ? group.substr(1) : group)) {
        unread_.push_back(group + " (" + entries.back().origin + ")");
        entries.pop_back();
        continue;
      }
      if (!entries.back().is_self()) continue;
      if (has_self) {
        throw ConfigError(entries.back().origin + ": _self_ comes twice in the defaults list");
      }
      has_self = true;
    }
    if (has_self) return entries;
    DefaultsEntry self;
    self.choice.name = "_self_";
    entries.push_back(self);
    return entries;
  }

  /// Those of outer files count more: they are noted before the files below are read.
  void note_overrides(const std::vector<DefaultsEntry>& entries, const Place& place) {
    const DefaultsEntry* last = nullptr;
    for (const DefaultsEntry& entry : entries) {
      if (entry.is_override && place.is_interpolated) {
        throw ConfigError(entry.origin + ": a file that an interpolation chooses cannot override " +
                          entry.group);
      }
      if (entry.is_override) {
        choices_.note_override(key_of(entry, place), entry);
        last = &entry;
      } else if (last != nullptr && !entry.is_self() && !entry.is_appended) {
        throw ConfigError(last->origin + ": override " + last->group +
                          " must stand at the end of the defaults list");
      }
    }
  }

  void expand_interpolated(const std::vector<size_t>& interpolated,
                           std::vector<DefaultsEntry>& entries, const Place& place,
                           std::vector<Layers>& parts) {
    if (interpolated.empty()) return;
    const Node known = choices_.known();
    const Place below{place.folder, place.package, true};
    for (const size_t i : interpolated) {
      Choices& choice = entries[i].choice;
      choice = {fill_in(choice.name, known, entries[i].origin), std::nullopt, false};
      parts[i] = expand_entry(entries[i], below);
    }
  }

  /// Replaces `${group}` by that group's choice.
  std::string fill_in(const std::string& text, const Node& known, const std::string& origin) const {
    Node name;
    try {
      name = resolve_in(known, Node(Interpolation{text, false}, {origin, Origin::Source::kFile}),
                        "defaults");
    } catch (const ConfigError& error) {
      const auto* absent = dynamic_cast<const AbsentKey*>(&error);
      const std::string left_out = absent == nullptr ? "" : choices_.left_out_by(absent->key());
      throw ConfigError(origin + ": " + text +
                        " must name a group chosen by one name in the defaults list" +
                        (left_out.empty() ? header_note_ : ", and " + left_out + " leaves it out"));
    }
    const auto* filled = name.get_if<std::string>();
    if (filled == nullptr) throw ConfigError(origin + ": " + text + " is no name");
    return *filled;
  }

  Layers expand_entry(const DefaultsEntry& entry, const Place& place) {
    if (entry.group.empty()) return expand_config(entry, place);
    if (!entry.choice.several) return expand_group(entry, place);
    Layers layers;
    std::vector<Layers> parts;
    const std::vector<std::string>& names = *entry.choice.several;
    for (auto name = names.rbegin(); name != names.rend(); ++name) {
      DefaultsEntry one = entry;
      one.group.clear();
      one.choice = {entry.group + "/" + *name, std::nullopt, false};
      parts.push_back(expand_config(one, place));
    }
    for (auto part = parts.rbegin(); part != parts.rend(); ++part) append(layers, std::move(*part));
    return layers;
  }

  Layers expand_config(const DefaultsEntry& entry, const Place& place) {
    const std::string path = join_path(place.folder, entry.choice.name, entry.origin);
    const std::optional<ConfigFile> file = repository_.load(path);
    if (!file && entry.is_optional) return {};
    if (!file) {
      const std::string folder = folder_of(path);
      const std::string near = nearest_name(path.substr(folder.empty() ? 0 : folder.size() + 1),
                                            repository_.options(folder));
      throw ConfigError((entry.chosen_by.empty() ? entry.origin : entry.chosen_by) +
                        ": there is no " + path + ".yaml in " + repository_.places() +
                        (stack_.size() == 1 && !header_note_.empty() ? header_note_
                         : repository_.load(entry.choice.name)
                             ? "; did you mean /" + entry.choice.name + "?"
                         : near.empty() ? ""
                                        : "; did you mean " + near + "?"));
    }
    const std::string package =
        package_of(folder_of(entry.choice.name), entry, file->package, place);
    return expand_file(path, *file, {folder_of(path), package, place.is_interpolated});
  }

  Layers expand_group(const DefaultsEntry& entry, const Place& place) {
    const std::string key = key_of(entry, place);
    if (choices_.is_deleted(key, entry)) return {};
    choices_.note_choice(key, entry);
    const std::string& name = entry.choice.name;
    if (name == "null") return {};
    const std::string group = join_path(place.folder, entry.group, entry.origin);
    if (name == "???") {
      throw ConfigError(GroupChoices::asked(key, entry) + " has to be chosen: write " + key +
                        "=NAME" + choices_.available(group));
    }
    const std::string path = join_path(group, name, entry.origin);
    const std::optional<ConfigFile> file = repository_.load(path);
    if (!file && entry.is_optional) return {};
    if (!file) {
      throw ConfigError(GroupChoices::asked(key, entry) +
                        (name.empty()
                             ? ": the name of the option is empty (an unset variable of the "
                               "shell?)"
                             : ": there is no option " + name) +
                        choices_.available(group));
    }
    // In Hydra's final list a file with a list of its own stands as its `_self_`.
    const bool is_leaf =
        std::all_of(file->defaults.begin(), file->defaults.end(),
                    [](const Node& node) { return parse_defaults_entry(node).is_override; });
    if (is_leaf) choices_.note_leaf(key, entry);
    const std::string package = package_of(entry.group, entry, file->package, place);
    return expand_file(path, *file, {group, package, place.is_interpolated});
  }

  const Repository& repository_;
  GroupChoices choices_;
  std::vector<std::string>& unread_;
  std::string header_note_;  // on a primary file that is put below a group
  std::vector<std::string> stack_;
};

}  // namespace

std::vector<Layer> expand_defaults(const Repository& repository, const std::string& primary,
                                   const std::vector<Override>& group_overrides,
                                   std::vector<std::string>& unread) {
  return Expander(repository, group_overrides, unread).expand(primary);
}

}  // namespace verlcpp::config
