#pragma once

#include <string>

#include "config/tree.h"
#include "train/compare_dcp.h"

namespace verlcpp::app {

/// What --compare-dcp asks for.
struct CompareRequest {
  train::CompareOptions options;
  bool json = false;      // on standard output, instead of the table
  std::string json_file;  // to be written besides, unless empty: checked before the work
};

struct CompareOutcome {
  std::string text;     // what to print
  std::string json;     // for write_result()
  std::string differs;  // train::what_differs(); unless empty, it is a bug of ours
};

/// Runs the controlled comparison of a resolved configuration that validate() has passed: ranks on
/// threads. ConfigError when the arms would not process the same tokens.
CompareOutcome run_comparison(const CompareRequest& request, const config::Node& tree);

}  // namespace verlcpp::app
