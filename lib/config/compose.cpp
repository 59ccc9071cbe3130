#include "config/compose.h"

#include <algorithm>
#include <iterator>
#include <optional>

#include "base/error.h"
#include "config/beaten.h"
#include "config/defaults_list.h"
#include "config/hydra_keys.h"
#include "config/interpolation.h"
#include "config/override.h"
#include "config/problems.h"
#include "config/repository.h"

namespace verlcpp::config {

namespace {

[[noreturn]] void fail(const Override& item, const std::string& message) {
  throw ConfigError(item.text + " (" + item.origin() + "): " + message);
}

/// Replaces an interpolation at `path` that leads to a map or a list by a copy of that.
void follow(const Node& tree, const std::string& path, Node& node) {
  if (node.get_if<Interpolation>() == nullptr) return;
  std::optional<Node> target;
  try {
    target = select(tree, path);
  } catch (const ConfigError&) {
    return;  // it may lead somewhere once all files and overrides are in
  }
  if (target && !target->is_scalar()) node = *target;
}

/// Merges `over` on top of `under`, which stands at `path` in `tree`, as OmegaConf does: `???`
/// replaces nothing, and an interpolation below it becomes a copy of the map or list it leads to.
/// Returns what cannot be merged, or "".
std::string merge(const Node& tree, const std::string& path, const Node& over, Node& under) {
  if ((under.is_list() && over.is_map()) || (under.is_map() && over.is_list())) {
    return path + " is a " + std::string(under.type_name()) + " (" + under.origin().text +
           ") and cannot become a " + std::string(over.type_name()) + " (" + over.origin().text +
           ")";
  }
  if (!under.is_map() || !over.is_map()) {
    under = over;
    return "";
  }
  if (over.origin().source != Origin::Source::kShipped) under.set_origin(over.origin());
  for (const auto& [name, value] : over.items()) {
    Node* child = nullptr;
    for (auto& [there, present] : under.items()) child = there == name ? &present : child;
    if (child == nullptr) {
      under.items().emplace_back(name, value);
      continue;
    }
    const std::string below = path.empty() ? name : path + "." + name;
    follow(tree, below, *child);
    if (is_missing(value)) continue;
    const std::string message = merge(tree, below, value, *child);
    if (!message.empty()) return message;
  }
  return "";
}

/// The first key of the map `value` that the map `present`, which stands at `path`, does not have,
/// or "". Below a value that is no map every key is new.
std::string unknown_key(const Node& tree, const std::string& path, const Node& present,
                        const Node& value) {
  for (const auto& [name, child] : value.items()) {
    const std::string below = path + "." + name;
    Node there;
    bool found = false;
    for (const auto& [key, node] : present.items()) {
      if (key != name) continue;
      there = node;
      found = true;
    }
    if (!found) return below;
    follow(tree, below, there);
    if (!there.is_map() || !child.is_map()) continue;
    const std::string unknown = unknown_key(tree, below, there, child);
    if (!unknown.empty()) return unknown;
  }
  return "";
}

/// The longest leading part of `key` that exists and is an interpolation, or nullptr.
const Node* interpolated_parent(const Node& tree, const std::string& key) {
  for (size_t dot = key.find('.'); dot != std::string::npos; dot = key.find('.', dot + 1)) {
    const Node* parent = tree.find(std::string_view(key).substr(0, dot));
    if (parent != nullptr && parent->get_if<Interpolation>() != nullptr) return parent;
  }
  return nullptr;
}

/// True below a map whose keys are free: there, adding one can be what was meant. Elsewhere the
/// keys are fixed and an added one is refused later.
bool in_free_map(const Node& tree, const std::string& key) {
  const std::string_view parent = std::string_view(key).substr(0, key.rfind('.'));
  const std::string_view name = parent.substr(parent.rfind('.') + 1);
  const Node* group = tree.find(parent);
  return name == "override_transformer_config" || name == "override_config" ||
         name == "apply_chat_template_kwargs" ||
         (group != nullptr && group->is_map() && group->items().empty());
}

/// The key that is nearest to one that is not there; among those that are read, if any is near.
std::string near_key(const Node& tree, const std::string& key, const ComposeRequest& request) {
  const std::vector<std::string> all = leaf_keys(tree);
  std::vector<std::string> read;
  std::copy_if(all.begin(), all.end(), std::back_inserter(read), request.is_read);
  const std::string near = nearest_key(key, read);
  if (!near.empty()) return near;
  std::vector<std::string> of_files;
  std::copy_if(all.begin(), all.end(), std::back_inserter(of_files), [&](const std::string& other) {
    return tree.find(other)->origin().source != Origin::Source::kOverride;
  });
  return nearest_key(key, of_files);
}

[[noreturn]] void fail_unknown(const Node& tree, const Override& item, const std::string& key,
                               const ComposeRequest& request) {
  std::string message = "there is no key " + key;
  const std::string old = about_old_key(request.old_keys, key);
  if (!old.empty()) fail(item, message + old);
  const Node* parent = interpolated_parent(tree, key);
  const std::string above = key.substr(0, std::min(key.rfind('.'), key.size()));
  const Node* list = tree.find(above);
  const std::string near = parent == nullptr ? near_key(tree, key, request) : "";
  const bool is_free = item.kind != Override::Kind::kDelete && in_free_map(tree, key);
  const bool may_add = is_free && request.is_read(key);
  const bool own_root =
      item.kind != Override::Kind::kDelete && tree.find(key.substr(0, key.find('.'))) == nullptr;
  if (parent != nullptr) {
    message += ", because a group above it is " + to_inline(*parent);
  } else if (list != nullptr && list->is_list()) {
    message += "; " + above + " is a list of " + std::to_string(list->elements().size());
  } else if (!near.empty()) {
    message += "; did you mean " + near + "?";
  } else if (own_root) {
    message += "; +" + item.text + " adds a key of your own";
  } else if (is_free && !may_add) {
    message += ", and nothing would read it; leave it out";
  } else if (!may_add) {
    message += "; --cfg job prints the keys there are";
  }
  if (may_add) message += (near.empty() ? "; +" : " +") + item.text + " adds a new key";
  fail(item, message);
}

/// Sets a key, turning what is no map on the way into one.
void put(Node& tree, const Override& item) {
  const std::string& key = item.key;
  for (size_t dot = key.find('.'); dot != std::string::npos; dot = key.find('.', dot + 1)) {
    const std::string_view path = std::string_view(key).substr(0, dot);
    Node* parent = tree.find(path);
    if (parent == nullptr) break;
    if (parent->is_list()) {
      const size_t end = key.find('.', dot + 1);
      if (tree.find(std::string_view(key).substr(0, end)) == nullptr) {
        fail(item, std::string(path) + " is a list of " +
                       std::to_string(parent->elements().size()) + " elements");
      }
    } else if (!parent->is_map()) {
      *parent = Node::map({}, item.value->origin());
    }
  }
  Node* present = tree.find(key);
  if (present != nullptr) {
    const std::string message = merge(tree, key, *item.value, *present);
    if (!message.empty()) fail(item, message);
  } else {
    tree.set(key, *item.value);
  }
}

void apply_set(Node& tree, const Override& item, const ComposeRequest& request) {
  const Node* present = tree.find(item.key);
  if (present == nullptr) fail_unknown(tree, item, item.key, request);
  if (present->is_map() && item.value->is_map()) {
    const std::string unknown = unknown_key(tree, item.key, *present, *item.value);
    if (!unknown.empty()) fail_unknown(tree, item, unknown, request);
  }
  put(tree, item);
}

/// The value an override names, seen through interpolations.
std::optional<Node> selected(const Node& tree, const Override& item) {
  std::optional<Node> value;
  try {
    value = select(tree, item.key);
  } catch (const ConfigError& error) {
    fail(item, error.what());
  }
  const Node* written = tree.find(item.key);
  if (value && is_missing(*value) && written != nullptr && !is_missing(*written)) {
    fail(item, item.key + " is " + to_inline(*written) + " (" + written->origin().text +
                   "), which leads to ?\?\?");
  }
  return value;
}

void apply_add(Node& tree, const Override& item) {
  const std::optional<Node> present = selected(tree, item);
  if (present && !present->is_null() && !is_missing(*present) && item.value->is_scalar()) {
    const std::string assignment = item.text.substr(1);
    const std::string value = present->is_scalar() ? to_inline(*present) + ", " : "";
    fail(item, item.key + " already exists (" + value + present->origin().text + "); " +
                   assignment + " changes it, ++" + assignment + " adds or changes it");
  }
  put(tree, item);
}

/// As Python compares: 1 == 1.0 == True, and a map has no order.
bool equal(const Node& a, const Node& b) {
  if (a.is_list() && b.is_list()) {
    return std::equal(a.elements().begin(), a.elements().end(), b.elements().begin(),
                      b.elements().end(), equal);
  }
  if (a.is_map() && b.is_map()) {
    const auto is_in_b = [&](const auto& item) {
      const auto same = [&](const auto& other) {
        return other.first == item.first && equal(item.second, other.second);
      };
      return std::any_of(b.items().begin(), b.items().end(), same);
    };
    return a.items().size() == b.items().size() &&
           std::all_of(a.items().begin(), a.items().end(), is_in_b);
  }
  const auto of = [](const Node& node) {
    const auto* truth = node.get_if<bool>();
    return truth == nullptr ? number(node) : std::optional(*truth ? 1.0 : 0.0);
  };
  const auto x = of(a), y = of(b);
  return x && y ? *x == *y : same_values(a, b);
}

void apply_delete(Node& tree, const Override& item, const ComposeRequest& request) {
  if (tree.find(item.key) == nullptr) fail_unknown(tree, item, item.key, request);
  const Node present = *selected(tree, item);
  const bool conditional = item.value && !item.value->is_null();  // as in Hydra
  if (conditional && !equal(present, *item.value)) {
    fail(item,
         "deletes the key only where it has this value, but " + item.key + " is " +
             to_inline(present) + " (" + present.origin().text + ")" +
             (request.is_read(item.key) ? ", and it is needed: " + item.key + "=VALUE changes it"
                                        : "; ~" + item.key + " deletes it whatever it is"));
  }
  const std::string parent = item.key.substr(0, std::min(item.key.rfind('.'), item.key.size()));
  if (parent != item.key && tree.find(parent)->is_list()) {
    fail(item, "an element of a list cannot be deleted; " + parent + "=[...] sets the list");
  }
  tree.erase(item.key);
}

void apply(Node& tree, const Override& item, const ComposeRequest& request) {
  switch (item.kind) {
    case Override::Kind::kSet:
      return apply_set(tree, item, request);
    case Override::Kind::kAdd:
      return apply_add(tree, item);
    case Override::Kind::kForce:
      return put(tree, item);
    case Override::Kind::kDelete:
      return apply_delete(tree, item, request);
  }
}

}  // namespace

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

/// Notes why `item` cannot be applied, with the keys of `tree` that its message names: they may be
/// meant.
void note(const Override& item, const std::string& message, const Node& tree,
          KeyProblems& problems) {
  problems.texts.push_back(message);
  problems.keys.push_back(item.key);
  for (std::string& key : dotted_keys(message.substr(std::min(item.text.size(), message.size())))) {
    if (tree.find(key) != nullptr) problems.keys.push_back(std::move(key));
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
  const std::string primary = primary_name(request);
  Repository repository(request.search_path);
  HydraKeys hydra = hydra_keys(request.overrides);
  const std::vector<Override> overrides = parse_all(request.overrides);
  Composed result{Node::map({}), Node::map({})};
  result.notes = add_search_path(repository, request, hydra);

  std::vector<Override> groups, values;
  for (const Override& item : overrides) {
    if (is_hydra_key(item.key)) continue;
    const bool is_map = item.value && item.value->is_map();
    const bool is_group = !is_map && !repository.options(item.key).empty();
    if (!is_group && (item.package || item.key.find('/') != std::string::npos)) {
      fail(item, "there is no group " + item.key + " in " + repository.places());
    }
    (is_group ? groups : values).push_back(item);
  }
  std::vector<std::string> hydras_groups;
  for (const Layer& layer : expand_defaults(repository, primary, groups, hydras_groups)) {
    add_layer(layer, primary, result.tree);
  }
  hydra.unread.insert(hydra.unread.begin(), hydras_groups.begin(), hydras_groups.end());
  if (const Node* block = result.tree.child("hydra")) hydra = with_block(*block, std::move(hydra));
  result.hydra = std::move(hydra.read);
  result.tree.erase("hydra");
  if (!hydra.unread.empty()) result.notes.push_back(without_effect(hydra.unread));
  for (const std::vector<Override>& given : {groups, values}) {
    for (std::string& note : beaten_overrides(given)) result.notes.push_back(std::move(note));
  }
  for (const Override& item : values) {
    try {
      apply(result.tree, item, request);
    } catch (const ConfigError& error) {
      note(item, error.what(), result.tree, problems);
    }
  }
  return result;
}

Composed compose(const ComposeRequest& request) {
  KeyProblems problems;
  Composed result = compose(request, problems);
  throw_problems(problems.texts);
  return result;
}

}  // namespace verlcpp::config
