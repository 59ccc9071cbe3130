#include "config/problems.h"

#include <algorithm>
#include <cctype>

namespace verlcpp::config {

namespace {

/// Whether `c` may stand in a dotted key.
bool of_key(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.' || c == '-';
}

}  // namespace

std::vector<std::string> dotted_keys(const std::string& message) {
  std::vector<std::string> keys;
  for (size_t at = 0; at < message.size();) {
    size_t end = at;
    while (end < message.size() && of_key(message[end])) ++end;
    std::string word = message.substr(at, end - at);
    while (word.ends_with('.')) word.pop_back();
    const size_t dot = word.find('.');
    if (dot != std::string::npos && dot > 0) keys.push_back(std::move(word));
    at = std::max(end, at + 1);
  }
  return keys;
}

bool names_key(const std::string& message, const std::string& key) {
  // A name alone is a word of many messages; as a key it has a value or a key below it.
  const bool word = key.find('.') == std::string::npos;
  const auto ends = [&](size_t end) {
    if (message.compare(end, 3, " = ") == 0 || message.compare(end, 2, " (") == 0) return true;
    if (end < message.size() && message[end] == '.') {
      return !word || (end + 1 < message.size() && of_key(message[end + 1]));
    }
    return !word && (end >= message.size() || !of_key(message[end]));
  };
  for (size_t at = message.find(key); at != std::string::npos; at = message.find(key, at + 1)) {
    if ((at == 0 || !of_key(message[at - 1])) && ends(at + key.size())) return true;
  }
  return false;
}

void KeyProblems::add(const ConfigError& error) {
  texts.emplace_back(error.what());
  const auto* without = dynamic_cast<const AbsentKey*>(&error);
  if (without != nullptr) absent[error.what()] = without->key();
}

std::string numbered(const std::vector<std::string>& problems) {
  std::string text = "the configuration has " + std::to_string(problems.size()) +
                     (problems.size() == 1 ? " problem:" : " problems:");
  for (size_t i = 0; i < problems.size(); ++i) {
    std::string problem = problems[i];
    for (size_t at = 0; (at = problem.find('\n', at)) != std::string::npos; at += 4) {
      problem.insert(at + 1, "   ");
    }
    text += "\n  " + std::to_string(i + 1) + ". " + problem;
  }
  return text;
}

void throw_problems(const std::vector<std::string>& problems) {
  if (problems.empty()) return;
  if (problems.size() == 1) throw ConfigError(problems[0]);
  throw SeveralProblems(problems);
}

SeveralProblems::SeveralProblems(std::vector<std::string> texts)
    : ConfigError(numbered(texts)), texts_(std::move(texts)) {}

}  // namespace verlcpp::config
