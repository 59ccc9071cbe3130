#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tensor/dtype.h"
#include "train/compare_dcp.h"

namespace verlcpp::train {

/// Largest absolute difference of losses that layouts may have: 1e-9 in float64, 1e-5 in float32,
/// 5e-4 in 16-bit dtypes.
double loss_tolerance(DType dtype);

/// Largest relative difference of gradient norms: 1e-9, 1e-5 and, in 16-bit dtypes, 5e-3.
double grad_norm_tolerance(DType dtype);

/// How many mini-batches of a step are judged: all, but in 16-bit dtypes the first alone. The later
/// ones follow optimizer steps, and Adam's first ones turn a gradient that rounding has moved
/// across zero into a whole step the other way: two packings on one layout then differ by per
/// cents.
std::optional<size_t> judged_mini_batches(DType dtype);

/// The arms, by name, of which some judged loss or gradient norm is not within the tolerance of the
/// first arm's; one that is not a number is not.
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
/// {"version": 1, "settings": {...}, "arms": [...], "differences": [...], "verdict": {...}}; every
/// field is always there, and numbers are those of one step.
std::string to_json(const Comparison& comparison, std::span<const CompareArm> arms,
                    const CompareOptions& options);

}  // namespace verlcpp::train
