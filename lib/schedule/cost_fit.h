#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "schedule/cost.h"

namespace verlcpp::schedule {

/// One measured micro-batch: a group of `cp` ranks with these sequences took so long.
struct MeasuredGroup {
  std::vector<int64_t> lengths;
  int64_t cp = 1;
  double seconds = 0;
};

/// The cost model with the least sum of squared relative errors of these times among those without
/// negative terms (non-negative least squares; with six terms every subset of them is tried).
/// A term that no measurement has any of is 0. Throws std::logic_error without measurements or for
/// times that are not positive.
CostModel fit_cost(std::span<const MeasuredGroup> measured, int64_t tp);

}  // namespace verlcpp::schedule
