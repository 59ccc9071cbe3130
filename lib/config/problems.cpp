#include "config/problems.h"

#include "base/error.h"

namespace verlcpp::config {

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
  throw ConfigError(problems.size() == 1 ? problems[0] : numbered(problems));
}

}  // namespace verlcpp::config
