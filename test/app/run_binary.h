#pragma once

#include <string>
#include <vector>

#include "support/temporary_folder.h"

namespace verlcpp::test {

struct Outcome {
  int code = -1;  // exit code; negative when a signal ended the program
  std::string out, err;
};

/// Runs verlcpp-train with these arguments, each passed as it is.
Outcome run_binary(const std::vector<std::string>& arguments);

}  // namespace verlcpp::test
