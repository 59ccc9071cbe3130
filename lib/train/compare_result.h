#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "train/compare_predict.h"
#include "train/engine.h"

namespace verlcpp::train {

/// What one arm did in its timed steps. Every step is the same work on the same state.
struct ArmResult {
  std::string name;
  std::vector<double> step_seconds;  // between barriers of the world, on rank 0
  /// Of one step, by verl's timer name of the pass (old_log_prob, ref, update_actor): what ran.
  std::map<std::string, ScheduleStats> passes;
  std::vector<double> losses, grad_norms;   // of each mini-batch
  double loss_drift = 0;                    // largest change of a loss between rounds
  double predicted_balance = 1;             // imbalance of the cost model's work over the pool
  std::optional<double> predicted_seconds;  // of a step, where the cost model was measured
  double measured_balance = 1;              // imbalance of the ranks' computing time
  int64_t peak_bytes = 0;  // largest over ranks, without the comparison's own copies

  ScheduleStats total() const;  // over all passes
  double median_seconds() const;
  double min_seconds() const;
  double max_seconds() const;
  double tokens_per_second() const;  // real tokens of all passes over the median
  double loss() const;               // mean over the mini-batches, like the next
  double grad_norm() const;
};

struct Comparison {
  std::vector<int64_t> lengths;     // of the samples, in order
  std::vector<ArmResult> arms;      // the first is what others are compared with
  std::string predicted_from = {};  // PassCosts::subject: empty for the model's operations alone
  std::vector<PredictedStep> predicted = {};  // on other numbers of GPUs
  bool exchanges_cost = false;  // by the cost model of those: not where one GPU was measured
};

/// How far an arm is from the first one; largest over the first `mini_batches`, or all of them.
/// Relative differences are of at least 1e-9, so that a loss of zero does not divide.
struct ArmDifference {
  double loss_abs = 0, loss_rel = 0, grad_norm_rel = 0;
  double speedup = 1;  // of the median step
};
ArmDifference difference(const ArmResult& arm, const ArmResult& reference,
                         std::optional<size_t> mini_batches = std::nullopt);

}  // namespace verlcpp::train
