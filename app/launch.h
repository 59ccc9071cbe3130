#pragma once

#include <chrono>

#include "config/tree.h"
#include "train/train_config.h"

namespace verlcpp::app {

/// Runs the training job of a validated configuration: ranks on threads, the first failure aborts
/// the others. `start` is when the process began, for the start-up times. Returns the exit code;
/// errors come as exceptions.
int run_training(const train::TrainConfig& config, const config::Node& tree,
                 std::chrono::steady_clock::time_point start);

}  // namespace verlcpp::app
