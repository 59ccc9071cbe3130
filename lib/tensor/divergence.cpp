#include "tensor/divergence.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "base/error.h"

namespace verlcpp {

double tolerance_of(DType dtype) {
  switch (dtype) {
    case DType::kFloat64:
      return 1e-9;
    case DType::kFloat32:
      return 1e-5;
    case DType::kBFloat16:
    case DType::kFloat16:
      return 0.02;
    case DType::kInt32:
    case DType::kInt64:
      return 0;
  }
  expects(false, "unknown dtype");
  return 0;
}

double largest_magnitude(std::span<const double> values) {
  double largest = 0;
  for (double x : values) {
    if (std::isfinite(x)) largest = std::max(largest, std::abs(x));
  }
  return largest;
}

std::optional<Divergence> divergence(std::span<const double> got, std::span<const double> want,
                                     double tolerance, double least_scale, int64_t columns) {
  expects(got.size() == want.size() && columns > 0, "results of two backends of different sizes");
  std::vector<double> scales(static_cast<size_t>(columns), least_scale);
  for (size_t i = 0; i < want.size(); ++i) {
    double& scale = scales[i % scales.size()];
    if (std::isfinite(want[i])) scale = std::max(scale, std::abs(want[i]));
  }
  Divergence found;
  for (size_t i = 0; i < want.size(); ++i) {
    if (got[i] == want[i] || (std::isnan(got[i]) && std::isnan(want[i]))) continue;
    const bool finite = std::isfinite(got[i]) && std::isfinite(want[i]);
    const double apart = finite ? std::abs(got[i] - want[i]) / scales[i % scales.size()]
                                : std::numeric_limits<double>::infinity();
    found.largest = std::max(found.largest, apart);
    if (apart <= tolerance) continue;
    if (found.count++ == 0) found.first = static_cast<int64_t>(i);
  }
  return found.count == 0 ? std::nullopt : std::optional(found);
}

}  // namespace verlcpp
