#include "train/compare_result.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"

namespace verlcpp::train {
namespace {

/// Below this a number is zero to a relative difference.
constexpr double kFloor = 1e-9;

double mean(const std::vector<double>& values) {
  if (values.empty()) return 0;
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

}  // namespace

ScheduleStats ArmResult::total() const {
  ScheduleStats sum;
  for (const auto& [name, stats] : passes) {
    sum.tokens += stats.tokens;
    sum.padded_tokens += stats.padded_tokens;
    sum.micro_batches += stats.micro_batches;
    if (stats.groups_by_cp.size() > sum.groups_by_cp.size()) {
      sum.groups_by_cp.resize(stats.groups_by_cp.size());
    }
    for (size_t cp = 0; cp < stats.groups_by_cp.size(); ++cp) {
      sum.groups_by_cp[cp] += stats.groups_by_cp[cp];
    }
  }
  return sum;
}

double ArmResult::median_seconds() const {
  expects(!step_seconds.empty(), "the median of no steps");
  std::vector<double> sorted = step_seconds;
  std::sort(sorted.begin(), sorted.end());
  const size_t middle = sorted.size() / 2;
  return sorted.size() % 2 == 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

double ArmResult::min_seconds() const {
  return *std::min_element(step_seconds.begin(), step_seconds.end());
}

double ArmResult::max_seconds() const {
  return *std::max_element(step_seconds.begin(), step_seconds.end());
}

double ArmResult::tokens_per_second() const {
  return static_cast<double>(total().tokens) / median_seconds();
}

double ArmResult::loss() const { return mean(losses); }
double ArmResult::grad_norm() const { return mean(grad_norms); }

ArmDifference difference(const ArmResult& arm, const ArmResult& reference,
                         std::optional<size_t> mini_batches) {
  ArmDifference out;
  expects(arm.losses.size() == reference.losses.size(), "arms of another number of mini-batches");
  const auto worse = [](double so_far, double value) {
    return std::isnan(value) || value > so_far ? value : so_far;
  };
  const size_t count = std::min(arm.losses.size(), mini_batches.value_or(arm.losses.size()));
  for (size_t i = 0; i < count; ++i) {
    const double loss = std::abs(arm.losses[i] - reference.losses[i]);
    const double norm = std::abs(arm.grad_norms[i] - reference.grad_norms[i]);
    out.loss_abs = worse(out.loss_abs, loss);
    out.loss_rel = worse(out.loss_rel, loss / std::max(std::abs(reference.losses[i]), kFloor));
    out.grad_norm_rel = worse(out.grad_norm_rel, norm / std::max(reference.grad_norms[i], kFloor));
  }
  out.speedup = reference.median_seconds() / arm.median_seconds();
  return out;
}

}  // namespace verlcpp::train
