#pragma once

#include <span>
#include <string>
#include <vector>

#include "tensor/dtype.h"
#include "train/compare_dcp.h"

namespace verlcpp::train {

/// Differences that layouts may have: the absolute one of losses, the relative one of gradient
/// norms. 1e-9 in float64, 1e-5 in float32, 5e-4 and 5e-3 in 16-bit dtypes.
struct CompareTolerance {
  double loss = 0, grad_norm = 0;
};
CompareTolerance compare_tolerance(DType dtype);

/// In 16-bit dtypes the first mini-batch alone is judged. Later ones follow a step of AdamW, which
/// divides each gradient by its own size and so makes a sign of every rounding.
bool judges_first_alone(DType dtype);

/// The arms, by name, of which some judged loss or gradient norm is not within the tolerance of the
/// first arm's, or any is not finite.
struct Disagreement {
  std::vector<std::string> losses, grad_norms;

  bool any() const { return !losses.empty() || !grad_norms.empty(); }
};
Disagreement disagreement(const Comparison& comparison, DType dtype);
/// "losses", "gradient norms", "losses and gradient norms"; empty when all agree.
std::string what_differs(const Disagreement& found);

/// Aligned text for people.
std::string to_text(const Comparison& comparison, std::span<const CompareArm> arms,
                    const CompareOptions& options);
/// {"version": 1, "settings": {...}, "arms": [...], "differences": [...],
/// "predicted": {"measured_for": ..., "steps": [...]}, "verdict": {...}}; every
/// field is always there, and numbers are those of one step.
std::string to_json(const Comparison& comparison, std::span<const CompareArm> arms,
                    const CompareOptions& options);

}  // namespace verlcpp::train
