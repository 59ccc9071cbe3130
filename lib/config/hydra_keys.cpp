#include "config/hydra_keys.h"

#include <algorithm>
#include <array>
#include <optional>

#include "base/error.h"
#include "config/embedded.h"
#include "config/interpolation.h"
#include "config/override.h"
#include "config/problems.h"
#include "config/sweep.h"

namespace verlcpp::config {

namespace {

constexpr std::array<std::string_view, 5> kRead = {"searchpath", "run.dir", "sweep.dir",
                                                   "sweep.subdir", "sweeper.params"};
constexpr std::array<std::string_view, 3> kGroups = {"run", "sweep", "sweeper"};

template <size_t kCount>
bool contains(const std::array<std::string_view, kCount>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

std::string about(const std::string& name, const Node& value) {
  return "hydra." + name + " = " + to_inline(value) + " (" + value.origin().text + ")";
}

/// Names are whole here: those of a sweep are keys.
void add_params(Node& there, const Map& params) {
  for (const auto& item : params) {
    std::erase_if(there.items(), [&](const auto& old) { return old.first == item.first; });
    there.items().push_back(item);
  }
}

/// A folder is a text; the search path is looked at where it is used.
void put(Node& found, const std::string& name, const Node& value) {
  const bool text = value.get_if<std::string>() != nullptr ||
                    value.get_if<Interpolation>() != nullptr || value.get_if<int64_t>() != nullptr;
  const auto* empty = value.get_if<std::string>();
  const bool is_folder = name.ends_with("dir");
  if (is_folder && (!text || (empty != nullptr && empty->empty()))) {
    throw ConfigError(about(name, value) + ": must name a folder");
  }
  Node* params = name == "sweeper.params" ? found.find(name) : nullptr;
  if (params != nullptr && params->is_map() && value.is_map()) {
    return add_params(*params, value.items());
  }
  found.set(name, value);
}

/// What the map `block` says, which stands at hydra.`prefix`.
void take(const Node& block, const std::string& prefix, HydraKeys& found) {
  for (const auto& [name, value] : block.items()) {
    const std::string key = prefix + name;
    const bool is_group = contains(kGroups, key), is_read = contains(kRead, key);
    if (is_read && !is_plain_name(name)) {
      throw ConfigError("hydra: " + name + " = " + to_inline(value) + " (" + value.origin().text +
                        "): is read as one name with dots in it; a.b is written a: {b: VALUE}");
    }
    if (is_group && !value.is_map()) {
      throw ConfigError(about(key, value) + ": must be a map, as in hydra." + key +
                        (key == "sweeper" ? "={params: {KEY: VALUES}}" : "={dir: FOLDER}"));
    }
    if (is_group) {
      take(value, key + ".", found);
    } else if (is_read) {
      put(found.read, key, value);
    } else {
      for (const Leaf& leaf : leaves(value)) {
        const std::string below = leaf.key();
        found.unread.push_back("hydra." + (name.empty() ? key + "''" : key) +
                               (below.empty() ? "" : "." + below) + " (" +
                               leaf.value->origin().text + ")");
      }
    }
  }
}

void take_override(const Override& item, HydraKeys& found) {
  const bool is_value =
      item.key.starts_with("hydra.") || (item.key == "hydra" && item.value && item.value->is_map());
  const std::string name = is_value && item.key.size() > 6 ? item.key.substr(6) : "";
  if (item.kind == Override::Kind::kDelete &&
      (item.key == "hydra" || contains(kRead, name) || contains(kGroups, name))) {
    throw ConfigError(
        item.text + " (" + item.origin() + "): a key of Hydra cannot be deleted" +
        (name == "searchpath" ? "; hydra.searchpath=[] empties it" : "; leave this out"));
  }
  if (item.kind == Override::Kind::kDelete || !is_value) {
    found.unread.push_back(item.key + " (" + item.origin() + ")");
    return;
  }
  Node whole = Node::map({}, item.value->origin());
  whole.set(item.key, *item.value);
  take(*whole.child("hydra"), "", found);
}

/// `++hydra.x=1` -> `hydra.x`.
std::string key_of(const std::string& text) {
  const size_t begin = std::min(text.find_first_not_of("+~"), text.size());
  return text.substr(begin, std::min(text.find_first_of("=@"), text.size()) - begin);
}

}  // namespace

std::string primary_name(const ComposeRequest& request) {
  const std::string& name = request.config_name;
  return name.ends_with(".yaml") ? name.substr(0, name.size() - 5) : name;
}

std::string about_hydra_sweep(const std::string& text, int number) {
  const std::string key = key_of(text);
  return text + " (override " + std::to_string(number) +
         "): is a sweep, and a key under hydra takes one value (the folders of -m come from "
         "hydra.sweep.dir and hydra.sweep.subdir); a name with a comma stands in quotes that the "
         "shell leaves there: \"" +
         key + "='x,y'\"";
}

bool is_hydra_key(const std::string& key) {
  return key == "hydra" || key.starts_with("hydra.") || key.starts_with("hydra/");
}

HydraKeys hydra_keys(const std::vector<std::string>& overrides,
                     std::vector<std::string>& problems) {
  HydraKeys found;
  for (size_t i = 0; i < overrides.size(); ++i) {
    const std::string& text = overrides[i];
    if (!is_hydra_key(key_of(text))) continue;
    const int number = static_cast<int>(i) + 1;
    if (is_sweep(text)) throw ConfigError(about_hydra_sweep(text, number));
    const Override item = parse_override(text, number);
    try {
      take_override(item, found);
    } catch (const ConfigError& error) {
      problems.emplace_back(error.what());
    }
  }
  return found;
}

HydraKeys with_block(const Node& block, HydraKeys overridden) {
  if (!block.is_map()) {
    throw ConfigError("hydra = " + to_inline(block) + " (" + block.origin().text +
                      "): must be a map, as in hydra: {run: {dir: FOLDER}}");
  }
  HydraKeys found;
  take(block, "", found);
  take(overridden.read, "", found);
  found.unread.insert(found.unread.end(), overridden.unread.begin(), overridden.unread.end());
  return found;
}

std::vector<std::string> group_options(const ComposeRequest& request, const std::string& group) {
  Repository repository(request.search_path);
  std::vector<std::string> problems;
  const HydraKeys hydra = hydra_keys(request.overrides, problems);
  throw_problems(problems);
  add_search_path(repository, request, hydra);
  return repository.options(group);
}

namespace {

constexpr std::string_view kFile = "file://", kPackage = "pkg://";

/// As Hydra reads the name of a package.
std::string package_name(const std::string& text) {
  std::string name = text.substr(kPackage.size());
  std::replace(name.begin(), name.end(), '/', '.');
  return name.substr(0, name.find_last_not_of('.') + 1);
}

/// Whether an element names a place as Hydra does: a folder, with or without its scheme.
bool is_place(const Node& element) {
  const auto* text = element.get_if<std::string>();
  if (text == nullptr) return false;
  const size_t scheme = text->find("://");
  const std::string name = scheme == std::string::npos ? *text : text->substr(scheme + 3);
  if (name.find_first_not_of(' ') == std::string::npos) return false;
  return text->starts_with(kFile) || text->starts_with(kPackage) || scheme == std::string::npos;
}

/// The list, whose interpolations have no tree yet.
Node search_path_of(const Node& written) {
  try {
    return resolve_in(Node::map({}), written, "hydra.searchpath");
  } catch (const AbsentKey&) {
    throw ConfigError(about("searchpath", written) +
                      ": is read before any other key, so it cannot be the value of one; "
                      "${oc.env:NAME} is followed here");
  }
}

/// Adds one folder, or returns why it is skipped.
std::string add_place(Repository& repository, const std::string& text) {
  if (text.starts_with(kPackage)) {
    if (package_name(text) != "verl.trainer.config") {
      return text + " is a folder inside a Python package, which cannot be opened here";
    }
    repository.add(embedded());
    return "";
  }
  SearchPath place = folder(text.starts_with(kFile) ? text.substr(kFile.size()) : text);
  const std::string absent = place.absent ? "there is no folder " + place.label : "";
  repository.add(std::move(place));
  return absent;
}

}  // namespace

std::vector<std::string> add_search_path(Repository& repository, const ComposeRequest& request,
                                         const HydraKeys& overridden) {
  const Node* written = overridden.read.find("searchpath");
  std::optional<ConfigFile> primary;
  if (written == nullptr || written->is_null()) {
    primary = repository.load(primary_name(request));
    written = primary ? primary->body.find("hydra.searchpath") : nullptr;
  }
  if (written == nullptr) return {};
  const Node value = search_path_of(*written);
  if (value.is_null()) return {};
  std::vector<std::string> skipped;
  const std::string must =
      " must be FOLDER or file:///FOLDER (or pkg://verl.trainer.config for "
      "verl's own files, which are here)";
  if (!value.is_list()) {
    throw ConfigError(about("searchpath", *written) +
                      ": must be a list, as in [FOLDER]; each element" + must);
  }
  for (const Node& element : value.elements()) {
    if (!is_place(element)) {
      throw ConfigError(about("searchpath", *written) + ": its element " + to_inline(element) +
                        must);
    }
    const std::string reason = add_place(repository, *element.get_if<std::string>());
    if (reason.empty()) continue;
    skipped.push_back("hydra.searchpath (" + element.origin().text + "): " + reason +
                      "; it is skipped");
  }
  return skipped;
}

}  // namespace verlcpp::config
