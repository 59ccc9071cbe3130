#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "tensor/dtype.h"

namespace verlcpp {

/// What two backends may differ by in a result of this dtype, relative to its scale: float64 1e-9,
/// float32 1e-5, bfloat16 and float16 0.02, integers 0.
double tolerance_of(DType dtype);

/// Largest magnitude among the finite values; 0 when there is none.
double largest_magnitude(std::span<const double> values);

/// How one result differs from another.
struct Divergence {
  int64_t count = 0;   // elements apart by more than the tolerance
  int64_t first = 0;   // the first of them
  double largest = 0;  // largest difference over the scale; infinite where one is not finite
  bool operator==(const Divergence&) const = default;
};

/// Nothing when all elements agree: |got - want| <= tolerance x scale, or both the same infinity,
/// or both NaN. The scale is the largest finite magnitude of `want`, at least `least_scale`; each
/// of `columns` columns (element i is in column i % columns) has its own.
std::optional<Divergence> divergence(std::span<const double> got, std::span<const double> want,
                                     double tolerance, double least_scale, int64_t columns);

}  // namespace verlcpp
