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

/// Times micro-batches of a resolved configuration that validate() has passed on its device, ranks
/// on threads, and fits the cost model. Nothing is written.
train::Calibration run_calibration(const CalibrateRequest& request, const config::Node& tree,
                                   const train::TrainConfig& config);

}  // namespace verlcpp::app
