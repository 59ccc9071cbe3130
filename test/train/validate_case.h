#pragma once

#include <string>
#include <vector>

// Configurations that train::validate() refuses, and what it says.

namespace verlcpp::test {

/// The message about `base` with `more` on top; "valid" when there is none.
std::string failure(const std::vector<std::string>& base, const std::vector<std::string>& more);

/// What a run warns of with `more` on top of valid_run().
std::vector<std::string> warnings(const std::vector<std::string>& more);

struct Bad {
  std::vector<std::string> overrides;
  std::string key, message;  // both must be in the report, and it is the only problem
};

/// Checks each of a table.
void check_table(const std::vector<std::string>& base, const std::vector<Bad>& table);

}  // namespace verlcpp::test
