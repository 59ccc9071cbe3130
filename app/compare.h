#pragma once

#include <string>

#include "config/tree.h"
#include "train/compare_dcp.h"

namespace verlcpp::app {

/// What --compare-dcp asks for.
struct CompareRequest {
  train::CompareOptions options;
  bool json = false;      // on standard output, instead of the table
  std::string json_file;  // besides, unless empty
};

/// Runs the controlled comparison of a resolved configuration that validate() has passed: ranks on
/// threads. Returns what to print. ConfigError when the arms do not process the same tokens.
std::string run_comparison(const CompareRequest& request, const config::Node& tree);

}  // namespace verlcpp::app
