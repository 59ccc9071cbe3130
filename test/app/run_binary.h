#pragma once

#include <string>
#include <vector>

#include "support/temporary_folder.h"

namespace verlcpp::test {

struct Outcome {
  int code = -1;  // exit code, or -1 when the program was killed
  std::string out, err;
};

/// Runs verlcpp-train with these arguments, each passed as it is. With `stop_file` it gets SIGTERM
/// as soon as that file holds something.
Outcome run_binary(const std::vector<std::string>& arguments, const std::string& stop_file = "");

}  // namespace verlcpp::test
