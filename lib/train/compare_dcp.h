#pragma once

#include <cstdint>
#include <span>

#include "train/busy_meter.h"
#include "train/compare_arms.h"
#include "train/compare_result.h"
#include "train/engine.h"
#include "train/inputs.h"

// The controlled comparison of dynamic with static context parallelism: one process, the same
// recorded samples, the same weights and optimizer state before each arm's step, arms taking turns.

namespace verlcpp::train {

struct CompareOptions {
  int64_t steps = 5;   // timed rounds of all arms
  int64_t warmup = 1;  // rounds before them, not reported
};

/// Runs the comparison on this rank; every rank calls it, rank 0 returns all of it (the others lack
/// what was gathered). `engine` uses the meter's communicators. Throws ConfigError when the arms
/// would not process the same tokens (check_same_samples); arms that differ in more than scheduling
/// are a bug of ours.
Comparison compare_dcp(const Engine& engine, BusyMeter& meter, std::span<const CompareArm> arms,
                       const Inputs& inputs, const CompareOptions& options);

/// Expects of all arms that they processed the same number of real tokens in every pass.
void check_same_tokens(std::span<const ArmResult> results);

}  // namespace verlcpp::train
