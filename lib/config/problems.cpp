#include "config/problems.h"

#include "base/error.h"

namespace verlcpp::config {

std::string numbered(const std::vector<std::string>& problems) {
  std::string text = "the configuration has " + std::to_string(problems.size()) +
                     (problems.size() == 1 ? " problem:" : " problems:");
  for (size_t i = 0; i < problems.size(); ++i) {
    text += "\n  " + std::to_string(i + 1) + ". " + problems[i];
  }
  return text;
}

void throw_problems(const std::vector<std::string>& problems) {
  if (problems.empty()) return;
  throw ConfigError(problems.size() == 1 ? problems[0] : numbered(problems));
}

}  // namespace verlcpp::config
