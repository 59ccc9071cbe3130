#pragma once

#include <string>
#include <vector>

#include "config/tree.h"
#include "train/train_config.h"

namespace verlcpp::app {

/// What --calibrate asks for.
struct CalibrateRequest {
  std::string file;                 // that takes the result: checked before the work
  std::vector<std::string> checks;  // JSON arrays of lengths
};

/// A calibration uses no cost file: the one it is to write need not be there yet. To be called
/// before the tree is bound.
void forget_cost_files(config::Node& tree);

/// Times micro-batches of a resolved configuration that validate() has passed on its device, ranks
/// on threads, and fits the cost model. Nothing is written.
train::Calibration run_calibration(const CalibrateRequest& request, const config::Node& tree,
                                   const train::TrainConfig& config);

}  // namespace verlcpp::app
