#include "config/repository.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

#include "base/error.h"
#include "config/yaml.h"

namespace verlcpp::config {

namespace {

constexpr std::string_view kSuffix = ".yaml";

/// The word after `# @package` in the lines `# @key value` at the top, before any other comment.
std::optional<std::string> package_header(const std::string& text) {
  std::istringstream lines(text.substr(0, 512));
  std::optional<std::string> package;
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string hash, keyword, value;
    words >> hash;
    if (hash.empty()) continue;
    if (hash[0] != '#') break;
    keyword = hash.substr(hash.find_first_not_of('#') == std::string::npos ? hash.size() : 1);
    if (keyword.empty()) words >> keyword;
    if (!keyword.starts_with('@')) break;
    words >> value;
    if (keyword == "@package") package = value;
  }
  return package;
}

}  // namespace

void Repository::add(SearchPath path) {
  const bool is_there = std::any_of(search_path_.begin(), search_path_.end(), [&](auto& known) {
    return path.source == Origin::Source::kShipped && known.source == path.source &&
           known.label == path.label;
  });
  if (is_there) return;
  search_path_.push_back(std::move(path));
  loaded_.clear();
}

std::optional<ConfigFile> Repository::load(const std::string& name) const {
  const auto known = loaded_.find(name);
  return known != loaded_.end() ? known->second : (loaded_[name] = read(name));
}

std::optional<ConfigFile> Repository::read(const std::string& name) const {
  const std::string file = name + std::string(kSuffix);
  for (const SearchPath& path : search_path_) {
    const std::optional<std::string> text = path.read(file);
    if (!text) continue;
    const std::string label = path.label + "/" + file;
    ConfigFile config{parse_yaml(*text, label, path.source), {}, package_header(*text)};
    if (!config.body.is_map()) {
      throw ConfigError(config.body.origin().text + ": the file must be a map of keys, not a " +
                        std::string(config.body.type_name()));
    }
    if (const Node* defaults = config.body.find("defaults")) {
      if (!defaults->is_list()) {
        throw ConfigError(defaults->origin().text + ": defaults must be a list, got " +
                          to_inline(*defaults));
      }
      config.defaults = defaults->elements();
      config.body.erase("defaults");
    }
    return config;
  }
  return std::nullopt;
}

std::vector<std::string> Repository::options(const std::string& group) const {
  std::vector<std::string> names;
  for (const SearchPath& path : search_path_) {
    const std::vector<std::string> more = path.list(group);
    names.insert(names.end(), more.begin(), more.end());
  }
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

std::string Repository::places() const {
  std::string text;
  for (const SearchPath& path : search_path_) {
    text += (text.empty() ? "" : ", ") + path.label + (path.absent ? " (no such folder)" : "");
  }
  return text;
}

SearchPath folder(const std::string& path) {
  namespace fs = std::filesystem;
  SearchPath result;
  result.label = path;
  while (result.label.size() > 1 && result.label.back() == '/') result.label.pop_back();
  std::error_code failed;
  result.absent = !fs::is_directory(path, failed);
  result.read = [path](const std::string& relative) -> std::optional<std::string> {
    const fs::path file = fs::path(path) / relative;
    std::error_code ignored;
    if (!fs::is_regular_file(file, ignored)) return std::nullopt;
    std::ifstream stream(file, std::ios::binary);
    if (!stream) throw ConfigError(file.string() + " cannot be opened: " + std::strerror(errno));
    std::string text(std::istreambuf_iterator<char>(stream), {});
    if (!stream) throw ConfigError(file.string() + ": the file cannot be read");
    return text;
  };
  result.list = [path](const std::string& group) {
    std::vector<std::string> names;
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(fs::path(path) / group, error)) {
      if (entry.path().extension() == kSuffix) names.push_back(entry.path().stem().string());
    }
    std::sort(names.begin(), names.end());
    return names;
  };
  return result;
}

SearchPath in_memory(std::string label, std::map<std::string, std::string> files,
                     Origin::Source source) {
  SearchPath result;
  result.source = source;
  result.label = std::move(label);
  result.read = [files](const std::string& relative) -> std::optional<std::string> {
    const auto found = files.find(relative);
    return found == files.end() ? std::nullopt : std::optional(found->second);
  };
  result.list = [files](const std::string& group) {
    const std::string prefix = group.empty() ? "" : group + "/";
    std::vector<std::string> names;
    for (const auto& [file, text] : files) {
      if (!file.starts_with(prefix) || !file.ends_with(kSuffix)) continue;
      const std::string name =
          file.substr(prefix.size(), file.size() - prefix.size() - kSuffix.size());
      if (name.find('/') == std::string::npos) names.push_back(name);
    }
    return names;
  };
  return result;
}

}  // namespace verlcpp::config
