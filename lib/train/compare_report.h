#pragma once

#include <span>
#include <string>

#include "train/compare_dcp.h"

namespace verlcpp::train {

/// How far an arm is from the first one; largest over the mini-batches. Relative differences are
/// of at least 1e-9, so that a loss of zero does not divide.
struct ArmDifference {
  double loss_abs = 0, loss_rel = 0, grad_norm_rel = 0;
  double speedup = 1;  // of the median step
};
ArmDifference difference(const ArmResult& arm, const ArmResult& reference);

/// Largest absolute difference of losses that layouts may have: 1e-9 in float64, 1e-5 in float32,
/// 5e-4 in 16-bit dtypes.
double loss_tolerance(DType dtype);

/// Aligned text for people.
std::string to_text(const Comparison& comparison, std::span<const CompareArm> arms,
                    const CompareOptions& options);
/// {"version": 1, "settings": {...}, "arms": [...], "differences": [...], "verdict": {...}}; every
/// field is always there, and numbers are those of one step.
std::string to_json(const Comparison& comparison, std::span<const CompareArm> arms,
                    const CompareOptions& options);

}  // namespace verlcpp::train
