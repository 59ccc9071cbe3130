#include "config/compose.h"

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "config/apply.h"
#include "config/beaten.h"
#include "config/defaults_list.h"
#include "config/hydra_keys.h"
#include "config/merge.h"
#include "config/override.h"
#include "config/problems.h"
#include "config/repository.h"

namespace verlcpp::config {

namespace {

/// ConfigError with every syntax error; of an override that the shell has split, its first part's.
std::vector<Override> parse_all(const std::vector<std::string>& texts) {
  std::vector<Override> overrides;
  std::vector<std::string> problems;
  bool before_failed = false;
  for (size_t i = 0; i < texts.size(); ++i) {
    try {
      overrides.push_back(parse_override(texts[i], static_cast<int>(i) + 1));
      before_failed = false;
    } catch (const ConfigError& error) {
      const std::string text = error.what();
      const bool rest =
          before_failed && text.find("the shell has split it off") != std::string::npos;
      if (!rest) problems.push_back(text);
      before_failed = true;
    }
  }
  throw_problems(problems);
  return overrides;
}

/// As in Hydra the search path is known before any file but the primary one is read.
void add_layer(const Layer& layer, const std::string& primary, Node& tree) {
  Node placed = Node::map({}, layer.body.origin());
  placed.set(layer.package, layer.body);
  const Node* search = layer.is_primary ? nullptr : placed.find("hydra.searchpath");
  if (search != nullptr && !search->is_null()) {
    throw ConfigError("hydra.searchpath = " + to_inline(*search) + " (" + search->origin().text +
                      "): only the primary file, " + primary +
                      ".yaml, and the command line can set it");
  }
  const std::string message = merge(tree, "", placed, tree);
  if (!message.empty()) throw ConfigError(message);
}

/// Notes why `item` cannot be applied, with the keys of `tree` that its message names, which may be
/// meant, and what an override before it deleted.
void note(const Override& item, const std::string& message, const Composed& made,
          KeyProblems& problems) {
  problems.texts.push_back(message);
  problems.keys.push_back(item.key);
  const std::string deleted = made.history.deleted_at(item.key);
  if (!deleted.empty()) problems.keys.push_back(deleted);
  for (std::string& key : dotted_keys(message.substr(std::min(item.text.size(), message.size())))) {
    if (made.tree.find(key) != nullptr) problems.keys.push_back(std::move(key));
  }
}

struct Given {
  std::vector<Override> groups, values;
};

/// Those that are not under hydra; adds a problem for a group that is not there.
Given sorted(const Repository& repository, const std::vector<Override>& overrides,
             std::vector<std::string>& problems) {
  Given given;
  for (const Override& item : overrides) {
    if (is_hydra_key(item.key)) continue;
    const bool is_map = item.value && item.value->is_map();
    const bool is_group = !is_map && !repository.options(item.key).empty();
    if (!is_group && (item.package || item.key.find('/') != std::string::npos)) {
      problems.push_back(item.text + " (" + item.origin() + "): there is no group " + item.key +
                         " in " + repository.places());
      continue;
    }
    (is_group ? given.groups : given.values).push_back(item);
  }
  return given;
}

/// expand_defaults(), but of several choices that cannot be made every one is said.
std::vector<Layer> chosen_layers(const Repository& repository, const std::string& primary,
                                 std::vector<Override> groups, std::vector<std::string>& unread) {
  std::vector<std::string> problems;
  while (true) {
    std::vector<std::string> found;
    try {
      std::vector<Layer> layers = expand_defaults(repository, primary, groups, found);
      if (problems.empty()) {
        unread = std::move(found);
        return layers;
      }
    } catch (const ConfigError& error) {
      const std::string text = error.what();
      const auto wrong = std::find_if(groups.begin(), groups.end(), [&](const Override& item) {
        return text.starts_with(item.text + " (" + item.origin() + ")");
      });
      const bool names_one = std::any_of(groups.begin(), groups.end(), [&](const Override& item) {
        return text.find("(" + item.origin() + ")") != std::string::npos;
      });
      if (problems.empty() || names_one) problems.push_back(text);
      if (wrong != groups.end()) {
        const std::string name = wrong->name();
        std::erase_if(groups, [&](const Override& item) { return item.name() == name; });
        continue;
      }
    }
    throw_problems(problems);
  }
}

/// Nothing more can be said then: which keys there are depends on the choices.
void throw_choices(std::vector<std::string> before, std::vector<std::string> choices,
                   const std::vector<std::string>& notes) {
  // What is not there may be in a folder that is skipped.
  const auto absent = std::find_if(choices.begin(), choices.end(), [](const std::string& text) {
    return text.find("there is no ") != std::string::npos;
  });
  std::string& text = absent == choices.end() ? choices.back() : *absent;
  for (const std::string& note : notes) text += "\n" + note;
  before.insert(before.end(), choices.begin(), choices.end());
  throw_problems(before);
}

/// Puts the files of the defaults list together.
void add_files(const Repository& repository, const std::string& primary,
               const std::vector<Override>& groups, HydraKeys& hydra, Composed& result) {
  std::vector<std::string> hydras_groups;
  for (const Layer& layer : chosen_layers(repository, primary, groups, hydras_groups)) {
    add_layer(layer, primary, result.tree);
  }
  hydra.unread.insert(hydra.unread.begin(), hydras_groups.begin(), hydras_groups.end());
  if (const Node* block = result.tree.child("hydra")) hydra = with_block(*block, std::move(hydra));
  result.tree.erase("hydra");
  for (const Override& item : groups) {
    if (item.kind != Override::Kind::kDelete && !item.value->is_null()) continue;
    std::string key = item.package.value_or(item.key);
    std::replace(key.begin(), key.end(), '/', '.');
    result.history.deleted[key] = item.text + " (" + item.origin() + ")";
  }
}

void note_links(Composed& made) {
  for (const Leaf& leaf : leaves(made.tree)) {
    const auto* link = leaf.value->get_if<Interpolation>();
    if (link == nullptr) continue;
    const Origin& origin = leaf.value->origin();
    const bool is_shipped = origin.source == Origin::Source::kShipped;
    made.history.links[leaf.key()] = is_shipped ? "" : link->text + " (" + origin.text + ")";
  }
}

std::string without_effect(const std::vector<std::string>& unread) {
  std::string keys;
  for (const std::string& key : unread) keys += (keys.empty() ? "" : ", ") + key;
  return keys + (unread.size() == 1 ? " has" : " have") +
         " no effect here; of Hydra's own keys only hydra.searchpath, hydra.run.dir, "
         "hydra.sweep.dir and hydra.sweep.subdir have one";
}

}  // namespace

Composed compose(const ComposeRequest& request, KeyProblems& problems) {
  Repository repository(request.search_path);
  HydraKeys hydra = hydra_keys(request.overrides, problems.texts);
  const std::vector<Override> overrides = parse_all(request.overrides);
  Composed result{Node::map({}), Node::map({})};
  result.notes = add_search_path(repository, request, hydra);
  std::vector<std::string> choices;
  const Given given = sorted(repository, overrides, choices);
  try {
    add_files(repository, primary_name(request), given.groups, hydra, result);
  } catch (const SeveralProblems& several) {
    choices.insert(choices.end(), several.texts().begin(), several.texts().end());
  } catch (const ConfigError& error) {
    choices.emplace_back(error.what());
  }
  if (!choices.empty()) throw_choices(problems.texts, choices, result.notes);
  result.hydra = std::move(hydra.read);
  if (!hydra.unread.empty()) result.notes.push_back(without_effect(hydra.unread));
  for (const std::vector<Override>* items : {&given.groups, &given.values}) {
    for (std::string& note : beaten_overrides(*items)) result.notes.push_back(std::move(note));
  }
  for (const Override& item : given.values) {
    try {
      apply(result.tree, item, request, result.history);
    } catch (const ConfigError& error) {
      note(item, error.what(), result, problems);
    }
  }
  note_links(result);
  return result;
}

Composed compose(const ComposeRequest& request) {
  KeyProblems problems;
  Composed result = compose(request, problems);
  throw_problems(problems.texts);
  return result;
}

}  // namespace verlcpp::config
