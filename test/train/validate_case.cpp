#include "validate_case.h"

#include "base/error.h"
#include "setup.h"
#include "support/catch.h"
#include "train/validate.h"

namespace verlcpp::test {

using Catch::Matchers::ContainsSubstring;

std::string failure(const std::vector<std::string>& base, const std::vector<std::string>& more) {
  const Configured c = configured(base, more);
  try {
    train::validate(c.config, c.tree);
  } catch (const ConfigError& e) {
    CHECK(e.exit_code() == 2);
    return e.what();
  }
  return "valid";
}

std::vector<std::string> warnings(const std::vector<std::string>& more) {
  const Configured c = configured(valid_run(), more);
  return train::validate(c.config, c.tree);
}

void check_table(const std::vector<std::string>& base, const std::vector<Bad>& table) {
  for (const Bad& bad : table) {
    INFO(bad.overrides.front() << " ... " << bad.overrides.back());
    const std::string message = failure(base, bad.overrides);
    CHECK_THAT(message, ContainsSubstring(bad.key) && ContainsSubstring(bad.message));
    CHECK_THAT(message, ContainsSubstring("the configuration has 1 problem:"));
  }
}

}  // namespace verlcpp::test
