#pragma once

#include <string>
#include <vector>

namespace verlcpp::config {

/// "the configuration has 2 problems:" and one numbered line for each.
std::string numbered(const std::vector<std::string>& problems);
/// ConfigError with every problem, one alone as it is; nothing when there is none.
void throw_problems(const std::vector<std::string>& problems);

}  // namespace verlcpp::config
