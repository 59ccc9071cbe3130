#include "config/bind.h"

#include <algorithm>
#include <iterator>

#include "config/problems.h"
#include "config/scalar.h"

namespace verlcpp::config {

namespace {

/// So many missing keys of one group are one problem: the group is.
constexpr size_t kMissingGroup = 4;

/// How a number comes out of an environment variable; on the command line in quotes, without which
/// a ${...} ends at its first }.
std::string decoded_variable(const Node& node, const std::string& path) {
  const std::string value = "${oc.decode:${oc.env:NAME}}";
  if (node.origin().source != Origin::Source::kOverride) return value;
  const bool element = path.ends_with(']');
  return element ? "\"" + value + "\", with the quotes" : "'" + path + "=\"" + value + "\"'";
}

/// What to say more about a text that is empty.
std::string about_empty(const Node& node) {
  const auto* text = node.get_if<std::string>();
  const bool empty = text != nullptr && text->empty();
  return empty ? ", got nothing (an unset variable of the shell?)" : "";
}

/// What to say more about a text where a number is wanted: it may be one in quotes, or too large.
std::string about_text(const Node& node, const std::string& path) {
  const auto* text = node.get_if<std::string>();
  if (text == nullptr) return "";
  if (text->empty()) return about_empty(node);
  const Node unquoted(scalar_from_command_line(*text), {});
  if (unquoted.get_if<int64_t>() || unquoted.get_if<double>()) {
    return ", got the text '" + *text + "': without quotes it is a number; an environment " +
           "variable, which is a text too, is read by " + decoded_variable(node, path);
  }
  const size_t sign = (*text)[0] == '-' || (*text)[0] == '+' ? 1 : 0;
  const bool digits =
      text->size() > sign && text->find_first_not_of("0123456789", sign) == std::string::npos;
  const bool zero = digits && (*text)[sign] == '0';
  return zero ? ", without zeros in front" : digits ? " of 64 bits, which this is not" : "";
}

[[noreturn]] void fail(const Node& node, const std::string& path, const std::string& wanted) {
  throw ConfigError(path + "=" + to_inline(node) + " (" + node.origin().text + "): must be " +
                    wanted);
}

template <class T>
void read_list(const Node& node, const std::string& path, const std::string& wanted,
               std::vector<T>& out) {
  if (!node.is_list()) fail(node, path, wanted);
  out.clear();
  for (size_t i = 0; i < node.elements().size(); ++i) {
    read(node.elements()[i], path + "[" + std::to_string(i) + "]", out.emplace_back());
  }
}

}  // namespace

void refuse_none(const Node& node, const std::string& path) {
  const auto* text = node.get_if<std::string>();
  if (text == nullptr || *text != "None") return;
  throw ConfigError(path + "='None' (" + node.origin().text +
                    "): None is a text here; write null for no value");
}

void read(const Node& node, const std::string& path, bool& out) {
  const auto* value = node.get_if<bool>();
  if (value == nullptr) fail(node, path, "True or False" + about_empty(node));
  out = *value;
}

void read(const Node& node, const std::string& path, int64_t& out) {
  const auto* value = node.get_if<int64_t>();
  if (value == nullptr) fail(node, path, "an integer" + about_text(node, path));
  out = *value;
}

void read(const Node& node, const std::string& path, double& out) {
  if (const auto* integer = node.get_if<int64_t>()) {
    out = static_cast<double>(*integer);
    return;
  }
  const auto* value = node.get_if<double>();
  if (value == nullptr) fail(node, path, "a number" + about_text(node, path));
  out = *value;
}

void read(const Node& node, const std::string& path, std::string& out) {
  if (const auto* value = node.get_if<std::string>()) {
    out = *value;
    return;
  }
  // A name such as 123 or True is typed as a number or a bool before anybody knows the field.
  const bool printable = node.get_if<bool>() || node.get_if<int64_t>() || node.get_if<double>();
  if (!printable) fail(node, path, "a string");
  out = to_inline(node);
}

void read(const Node& node, const std::string& path, std::vector<std::string>& out) {
  if (node.get_if<std::string>() != nullptr) {
    out.resize(1);
    read(node, path, out[0]);
    return;
  }
  read_list(node, path, "a string or a list of strings", out);
}

void read(const Node& node, const std::string& path, std::vector<double>& out) {
  read_list(node, path, "a list of numbers", out);
}

void read(const Node& node, const std::string&, Node& out) { out = node; }

bool Binder::is_own_root(const std::string& name, const Node& value,
                         const std::vector<std::string>& roots) const {
  const Origin::Source source = value.origin().source;
  const bool by_user = source == Origin::Source::kFile || source == Origin::Source::kOverride;
  if (!also_known_.own_roots || !by_user) return false;
  if (!about_old_key(also_known_.old_keys, name).empty()) return false;
  if (!value.is_map() || also_known_.tree == nullptr) return true;
  const Node* near = also_known_.tree->child(nearest_name(name, roots));
  return near == nullptr ||
         std::none_of(value.items().begin(), value.items().end(),
                      [&](auto& item) { return near->child(item.first) != nullptr; });
}

std::string Binder::near_elsewhere(const std::string& key) const {
  if (also_known_.tree == nullptr) return "";
  const std::vector<std::string> all = leaf_keys(*also_known_.tree);
  std::vector<std::string> read;
  std::copy_if(all.begin(), all.end(), std::back_inserter(read), also_known_.is_read);
  return nearest_key(key, read);
}

void Binder::report_unknown(const Node& node, const std::string& path,
                            const std::vector<std::string>& known) {
  if (!node.is_map() || also_known_.free.contains(path)) return;
  const Node* here = also_known_.tree == nullptr ? nullptr : also_known_.tree->find(path);
  const bool has_more = here != nullptr && here->is_map();
  const std::string prefix = path.empty() ? "" : path + ".";
  for (const auto& [name, child] : node.items()) {
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    const Node* there = has_more ? here->child(name) : nullptr;
    if (there != nullptr) {
      const bool fixed = there->is_map() && !there->items().empty();
      if (fixed) report_unknown(child, prefix + name, {});
      continue;
    }
    if (also_known_.more.contains(prefix + name)) continue;
    std::vector<std::string> candidates = known;
    if (has_more) {
      for (const auto& item : here->items()) candidates.push_back(item.first);
    }
    const bool is_plain = is_plain_name(name);
    if (path.empty() && is_plain && is_own_root(name, child, candidates)) continue;
    std::string problem =
        prefix + (name.empty() ? "''" : name) + " (" + child.origin().text + ") is not a known key";
    if (!is_plain) {
      problems_.push_back({.text = problem + ": a name " +
                                   (name.empty() ? "that is empty" : "with dots") +
                                   " is one name here; a.b is written a: {b: VALUE}",
                           .key = "",
                           .unknown_key = true});
      continue;
    }
    const std::string old = about_old_key(also_known_.old_keys, prefix + name);
    const std::string sibling = old.empty() ? nearest_name(name, candidates) : "";
    const std::string near = sibling.empty() ? near_elsewhere(prefix + name) : prefix + sibling;
    problem += !old.empty()   ? old
               : near.empty() ? "; --cfg job prints the keys there are"
                              : "; did you mean " + near + "?";
    const bool added = path.empty() && child.origin().source == Origin::Source::kOverride;
    if (added && !near.empty()) problem += " (without +; a key of your own needs another name)";
    problems_.push_back({.text = problem, .key = "", .unknown_key = true});
  }
}

std::vector<std::string> Binder::unknown_keys() const {
  std::vector<std::string> texts;
  for (const Problem& problem : problems_) {
    if (problem.unknown_key) texts.push_back(problem.text);
  }
  return texts;
}

std::vector<std::string> Binder::unreadable_keys() const {
  std::vector<std::string> keys;
  for (const Problem& problem : problems_) {
    if (problem.unknown_key) continue;
    keys.push_back(problem.missing.empty() ? problem.key : problem.group + problem.missing);
  }
  return keys;
}

void Binder::add_missing(const std::string& path, const std::string& name, bool is_group) {
  const std::string deleted = also_known_.deleted_by(path), remedy = "++" + path + "=VALUE";
  std::string text = path + " is missing: ";
  if (!deleted.empty()) {
    text += deleted + " deletes it; leave that out";
    if (!is_group) text += ", or set it behind it with " + remedy;
  } else if (is_group) {
    text += "it is a group of keys, and no file of the defaults list sets it";
  } else {
    text += "no file sets it; " + remedy + " does";
  }
  problems_.push_back({.text = std::move(text),
                       .group = path.substr(0, path.size() - name.size()),
                       .missing = name});
}

std::vector<std::string> Binder::lacking(const std::string& group) const {
  std::vector<std::string> names;
  for (const Problem& problem : problems_) {
    if (!problem.missing.empty() && problem.group == group) names.push_back(problem.missing);
  }
  return names;
}

std::vector<std::string> Binder::missing_groups() const {
  std::vector<std::string> texts;
  std::set<std::string> said;
  for (const Problem& problem : problems_) {
    const std::vector<std::string> names = lacking(problem.group);
    const bool whole = !problem.missing.empty() && names.size() >= kMissingGroup;
    if (!whole || !said.insert(problem.group).second) continue;
    const std::string group = problem.group.substr(0, problem.group.size() - 1);
    const std::string deleted = also_known_.deleted_by(group);
    if (!deleted.empty() && !said.insert(deleted).second) continue;  // it left out a whole tree
    texts.push_back((group.empty() ? "the configuration" : group) + " lacks " + names[0] + ", " +
                    names[1] + " and " + std::to_string(names.size() - 2) + " more: " +
                    (deleted.empty()
                         ? "a group of the defaults list that holds them is left out (~GROUP, "
                           "GROUP=null, or a file without it), or another stands in its place"
                         : deleted + " deletes them; leave that out"));
  }
  return texts;
}

std::string Binder::Problem::cause() const {
  const std::string all = key.empty() ? "" : text.substr(key.size());
  return all.substr(0, std::min(all.find(kNullToo), all.size()));
}

std::vector<std::string> Binder::problems() const {
  std::set<std::string> causes;  // of keys that follow no other
  for (const Problem& problem : problems_) {
    if (!problem.key.empty() && !also_known_.follows(problem.key)) causes.insert(problem.cause());
  }
  std::vector<std::string> texts = missing_groups();
  for (const Problem& problem : problems_) {
    if (!problem.missing.empty() && lacking(problem.group).size() >= kMissingGroup) continue;
    const bool follows = !problem.key.empty() && also_known_.follows(problem.key);
    if (follows && causes.contains(problem.cause())) continue;
    const std::string link = follows ? also_known_.link(problem.key) : "";
    const bool says = problem.text.find(link.substr(std::min(link.rfind(" ("), link.size()))) !=
                      std::string::npos;  // the origin: a value made on the spot
    texts.push_back(problem.text + (says ? "" : "; it is there by " + link));
  }
  return texts;
}

void Binder::finish() const { throw_problems(problems()); }

}  // namespace verlcpp::config
