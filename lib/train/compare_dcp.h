#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "schedule/cost.h"
#include "train/busy_meter.h"
#include "train/compare_arms.h"
#include "train/engine.h"
#include "train/inputs.h"

// The controlled comparison of dynamic with static context parallelism: one process, the same
// recorded samples, the same weights and optimizer state before each arm's step, arms taking turns.

namespace verlcpp::train {

struct CompareOptions {
  int64_t steps = 5;   // timed rounds of all arms
  int64_t warmup = 1;  // rounds before them, not reported
};

/// What one arm did in its timed steps. Every step is the same work on the same state.
struct ArmResult {
  std::string name;
  std::vector<double> step_seconds;  // between barriers of the world, on rank 0
  /// Of one step, by verl's timer name of the pass (old_log_prob, ref, update_actor): what ran.
  std::map<std::string, ScheduleStats> passes;
  std::vector<double> losses, grad_norms;  // of each mini-batch
  double loss_drift = 0;                   // largest change of a loss between rounds
  double predicted_balance = 1;            // imbalance of the cost model's work over the pool
  double measured_balance = 1;             // imbalance of the ranks' computing time
  int64_t peak_bytes = 0;  // largest over ranks, without the comparison's own copies

  ScheduleStats total() const;  // over all passes
  double median_seconds() const;
};

struct Comparison {
  std::vector<int64_t> lengths;  // of the samples, in order
  std::vector<ArmResult> arms;   // the first is what others are compared with
};

/// Runs the comparison on this rank; every rank calls it, rank 0 returns all of it (the others lack
/// what was gathered). `engine` uses the meter's communicators. Throws ConfigError when the arms
/// would not process, or did not process, the same tokens.
Comparison compare_dcp(const Engine& engine, BusyMeter& meter, std::span<const CompareArm> arms,
                       const Inputs& inputs, const CompareOptions& options);

/// Work of the model's layers for a sequence: parameters of a layer's matrices against its causal
/// attention, in the same operations. The head, which only response tokens pass, is left out.
schedule::CostModel layer_cost(const model::ModelConfig& model);

/// Throws ConfigError when two arms processed another number of real tokens in any pass; names the
/// settings that differ.
void check_same_tokens(std::span<const CompareArm> arms, std::span<const ArmResult> results);

}  // namespace verlcpp::train
