#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "schedule/cost.h"

namespace verlcpp::train {

/// What the work of a training step costs: verl's workload in a free unit, or seconds that
/// --calibrate measured.
struct PassCosts {
  schedule::CostModel update, log_prob;  // forward and backward of a micro-batch; forward alone
  /// Seconds of a mini-batch besides its micro-batches: gradient reduction, norm, AdamW, gather.
  double mini_batch = 0;
  bool measured = false;
  /// What was measured, as cost_subject() puts it; empty when nothing was.
  std::string subject = {};
  std::string device = {};  // that it was measured on: "cpu" or a GPU's name
};

inline constexpr const char* kUpdateCost = "update";     // names of passes in files
inline constexpr const char* kLogProbCost = "log_prob";  // of --calibrate

/// One micro-batch that was timed, by the group that decides its time.
struct TimedMicroBatch {
  std::string pass;  // kUpdateCost or kLogProbCost
  std::vector<int64_t> lengths;
  int64_t cp = 1;
  double seconds = 0;
  double predicted = 0;  // by the fitted model
};

/// Micro-batches of a file of lengths, none of which was fitted to.
struct CostCheck {
  std::string file;
  std::vector<TimedMicroBatch> micro_batches;
};

/// What --calibrate finds out.
struct Calibration {
  PassCosts costs;
  std::string device;
  std::vector<TimedMicroBatch> fitted;
  std::vector<CostCheck> checks;
};

/// |predicted / measured - 1| of the micro-batches of a pass: the mean and the largest.
struct CostError {
  int64_t count = 0;
  double mean = 0, largest = 0;
};
CostError cost_error(const std::vector<TimedMicroBatch>& timed, const std::string& pass);

/// A line for every pass whose model is more than a tenth off on the mean.
std::vector<std::string> fit_warnings(const std::vector<TimedMicroBatch>& fitted);

/// {"version": 1, "subject": ..., "device": ..., "seconds": {"update": {term: s, ...}, "log_prob":
/// {...}, "mini_batch": s}, "errors": {...}, "fitted": [...], "checks": [...]}.
std::string to_json(const Calibration& calibration);
std::string to_text(const Calibration& calibration);

/// The costs in a file of --calibrate. `about` names the key that the path came from. Throws
/// ConfigError for a file that cannot be read or is something else.
PassCosts read_cost_file(const std::string& path, const std::string& about);

}  // namespace verlcpp::train
