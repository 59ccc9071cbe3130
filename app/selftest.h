#pragma once

#include "config/tree.h"
#include "train/selftest_layout.h"

namespace verlcpp::app {

/// Runs --selftest-layout of a resolved configuration that validate() has passed: ranks on threads.
train::SelftestReport run_selftest(const config::Node& tree);

}  // namespace verlcpp::app
