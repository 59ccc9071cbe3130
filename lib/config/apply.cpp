#include "config/apply.h"

#include <algorithm>
#include <iterator>
#include <optional>

#include "base/error.h"
#include "config/interpolation.h"
#include "config/merge.h"

namespace verlcpp::config {

namespace {

[[noreturn]] void fail(const Override& item, const std::string& message) {
  throw ConfigError(item.text + " (" + item.origin() + "): " + message);
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

[[noreturn]] void fail_deleted(const Override& item, const std::string& key,
                               const KeyHistory& history) {
  const std::string deleted = history.deleted_at(key);
  const bool may_force = deleted == item.key && item.kind == Override::Kind::kSet;
  fail(item, "there is no key " + key + ": " + history.deleted_by(key) + " deletes " +
                 (deleted == key ? "it" : deleted) + "; leave that out" +
                 (may_force ? ", or write ++" + item.text : ""));
}

[[noreturn]] void fail_unknown(const Node& tree, const Override& item, const std::string& key,
                               const ComposeRequest& request, const KeyHistory& history) {
  if (!history.deleted_at(key).empty()) fail_deleted(item, key, history);
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

void apply_set(Node& tree, const Override& item, const ComposeRequest& request,
               const KeyHistory& history) {
  const Node* present = tree.find(item.key);
  if (present == nullptr) fail_unknown(tree, item, item.key, request, history);
  if (present->is_map() && item.value->is_map()) {
    const std::string unknown = unknown_key(tree, item.key, *present, *item.value);
    if (!unknown.empty()) fail_unknown(tree, item, unknown, request, history);
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

void apply_delete(Node& tree, const Override& item, const ComposeRequest& request,
                  KeyHistory& history) {
  if (tree.find(item.key) == nullptr) fail_unknown(tree, item, item.key, request, history);
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
  history.deleted[item.key] = item.text + " (" + item.origin() + ")";
}

}  // namespace

void apply(Node& tree, const Override& item, const ComposeRequest& request, KeyHistory& history) {
  switch (item.kind) {
    case Override::Kind::kSet:
      return apply_set(tree, item, request, history);
    case Override::Kind::kAdd:
      apply_add(tree, item);
      break;
    case Override::Kind::kForce:
      put(tree, item);
      break;
    case Override::Kind::kDelete:
      return apply_delete(tree, item, request, history);
  }
  if (!item.value->is_map()) history.deleted.erase(item.key);  // a map may lack what was there
}

}  // namespace verlcpp::config
