#include "config/hydra_keys.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "config/interpolation.h"
#include "config/override.h"
#include "config/sweep.h"

namespace verlcpp::config {

namespace {

constexpr std::array<std::string_view, 4> kRead = {"searchpath", "run.dir", "sweep.dir",
                                                   "sweep.subdir"};
constexpr std::string_view kPrefix = "hydra.";

bool is_read(const std::string& name) {
  return std::find(kRead.begin(), kRead.end(), name) != kRead.end();
}

/// A folder is a text; the search path is looked at where it is used.
void put(Node& found, const std::string& name, const Node& value) {
  const bool text = value.get_if<std::string>() != nullptr ||
                    value.get_if<Interpolation>() != nullptr || value.get_if<int64_t>() != nullptr;
  const auto* empty = value.get_if<std::string>();
  if (name != "searchpath" && (!text || (empty != nullptr && empty->empty()))) {
    throw ConfigError("hydra." + name + " = " + to_inline(value) + " (" + value.origin().text +
                      "): must name a folder");
  }
  found.set(name, value);
}

void add_file(const Repository& repository, const std::string& primary, HydraKeys& found) {
  const std::optional<ConfigFile> file = repository.load(primary);
  const Node* block = file ? file->body.find("hydra") : nullptr;
  if (block == nullptr) return;
  if (!block->is_map()) {
    throw ConfigError("hydra = " + to_inline(*block) + " (" + block->origin().text +
                      "): must be a map, as in hydra: {run: {dir: FOLDER}}");
  }
  for (const std::string& name : leaf_keys(*block)) {
    const Node& value = *block->find(name);
    if (is_read(name)) {
      put(found.read, name, value);
    } else {
      found.unread.push_back("hydra." + name + " (" + value.origin().text + ")");
    }
  }
}

/// `++hydra.x=1` -> `hydra.x`.
std::string key_of(const std::string& text) {
  const size_t begin = std::min(text.find_first_not_of("+~"), text.size());
  return text.substr(begin, std::min(text.find_first_of("=@"), text.size()) - begin);
}

HydraKeys from_overrides(const std::vector<std::string>& overrides) {
  HydraKeys found;
  for (size_t i = 0; i < overrides.size(); ++i) {
    const std::string& text = overrides[i];
    if (!is_hydra_key(key_of(text))) continue;
    const int number = static_cast<int>(i) + 1;
    if (is_sweep(text)) {
      throw ConfigError(about_hydra_sweep(text, number));
    }
    const Override item = parse_override(text, number);
    const std::string name =
        item.key.starts_with(kPrefix) ? item.key.substr(kPrefix.size()) : std::string();
    if (item.kind == Override::Kind::kDelete || !is_read(name)) {
      found.unread.push_back(item.key + " (" + item.origin() + ")");
    } else {
      put(found.read, name, *item.value);
    }
  }
  return found;
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

HydraKeys hydra_keys(const ComposeRequest& request) {
  const HydraKeys overridden = from_overrides(request.overrides);
  Repository repository(request.search_path);
  add_search_path(repository, overridden.read);
  HydraKeys found;
  add_file(repository, primary_name(request), found);
  for (const std::string& name : leaf_keys(overridden.read)) {
    found.read.set(name, *overridden.read.find(name));
  }
  found.unread.insert(found.unread.end(), overridden.unread.begin(), overridden.unread.end());
  return found;
}

std::vector<std::string> group_options(const ComposeRequest& request, const std::string& group) {
  Repository repository(request.search_path);
  add_search_path(repository, hydra_keys(request).read);
  return repository.options(group);
}

std::vector<std::string> add_search_path(Repository& repository, const Node& hydra) {
  constexpr std::string_view kFile = "file://";
  const Node* written = hydra.find("searchpath");
  if (written == nullptr) return {};
  const Node value = resolve_in(Node::map({}), *written, "hydra.searchpath");
  std::vector<std::string> absent;
  const std::string wanted = "hydra.searchpath=" + to_inline(*written) + " (" +
                             written->origin().text +
                             "): must be a list of folders, each as file:///FOLDER (pkg:// is a "
                             "folder inside a Python package, which cannot be opened here)";
  if (!value.is_list()) throw ConfigError(wanted);
  for (const Node& element : value.elements()) {
    const auto* text = element.get_if<std::string>();
    if (text == nullptr || !text->starts_with(kFile)) throw ConfigError(wanted);
    SearchPath place = folder(text->substr(kFile.size()));
    if (place.absent) {
      absent.push_back("hydra.searchpath (" + element.origin().text + "): there is no folder " +
                       place.label + "; it is skipped");
    }
    repository.add(std::move(place));
  }
  return absent;
}

}  // namespace verlcpp::config
