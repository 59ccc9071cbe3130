#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "config/compose.h"

namespace verlcpp::config {

/// One configuration file, taken apart.
struct ConfigFile {
  Node body;                           // without its defaults list
  List defaults;                       // as written
  std::optional<std::string> package;  // of the `# @package` header
};

/// The files of all search paths, first match first.
class Repository {
 public:
  explicit Repository(std::vector<SearchPath> search_path) : search_path_(std::move(search_path)) {}

  /// The embedded tree is searched once, where it stands first.
  void add(SearchPath path);
  /// "group/name" without ".yaml", or nothing. Throws ConfigError when the file is malformed.
  std::optional<ConfigFile> load(const std::string& name) const;
  /// Sorted, without duplicates; `group` may be "" for the top folder.
  std::vector<std::string> options(const std::string& group) const;
  /// The labels of all search paths, for messages.
  std::string places() const;

 private:
  std::optional<ConfigFile> read(const std::string& name) const;

  std::vector<SearchPath> search_path_;
  mutable std::map<std::string, std::optional<ConfigFile>>
      loaded_;  // some are listed several times
};

}  // namespace verlcpp::config
