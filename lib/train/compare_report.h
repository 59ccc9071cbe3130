#pragma once

#include <span>
#include <string>

#include "tensor/dtype.h"
#include "train/compare_dcp.h"

namespace verlcpp::train {

/// Largest absolute difference of losses that layouts may have: 1e-9 in float64, 1e-5 in float32,
/// 5e-4 in 16-bit dtypes.
double loss_tolerance(DType dtype);

/// Whether every loss is within the tolerance of the first arm's; one that is not a number is not.
bool losses_agree(const Comparison& comparison, DType dtype);

/// Aligned text for people.
std::string to_text(const Comparison& comparison, std::span<const CompareArm> arms,
                    const CompareOptions& options);
/// {"version": 1, "settings": {...}, "arms": [...], "differences": [...], "verdict": {...}}; every
/// field is always there, and numbers are those of one step.
std::string to_json(const Comparison& comparison, std::span<const CompareArm> arms,
                    const CompareOptions& options);

}  // namespace verlcpp::train
