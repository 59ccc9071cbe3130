#pragma once

#include "train/metrics.h"
#include "train/report.h"

namespace verlcpp::train {

/// All of a step's metrics under verl's names (reference: verl's compute_data_metrics,
/// compute_timing_metrics, compute_throughout_metrics), and our own under schedule/.
Metrics step_metrics(const TrainConfig& config, const StepOutcome& outcome);

}  // namespace verlcpp::train
