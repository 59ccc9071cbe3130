#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"

namespace verlcpp::config {

/// What is wrong, and the dotted keys whose values are therefore not the ones that were meant.
struct KeyProblems {
  std::vector<std::string> texts = {}, keys = {};
  std::map<std::string, std::string> absent = {};  // of some texts: the key that is not there

  /// Its text, and the key that is not there.
  void add(const ConfigError& error);
};

/// Several problems in one.
class SeveralProblems : public ConfigError {
 public:
  explicit SeveralProblems(std::vector<std::string> texts);
  const std::vector<std::string>& texts() const { return texts_; }

 private:
  std::vector<std::string> texts_;
};

/// Of an interpolation that names no key of the tree.
class AbsentKey : public ConfigError {
 public:
  AbsentKey(const std::string& text, std::string key) : ConfigError(text), key_(std::move(key)) {}
  const std::string& key() const { return key_; }

 private:
  std::string key_;
};

/// The words of a message that are dotted keys, as far as their form tells.
std::vector<std::string> dotted_keys(const std::string& message);
/// Whether `message` names `key` or a key below it.
bool names_key(const std::string& message, const std::string& key);

/// "the configuration has 2 problems:" and one numbered line for each.
std::string numbered(const std::vector<std::string>& problems);
/// SeveralProblems, or ConfigError with the one as it is; nothing when there is none.
void throw_problems(const std::vector<std::string>& problems);

}  // namespace verlcpp::config
