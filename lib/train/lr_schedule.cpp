#include "train/lr_schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/error.h"

namespace verlcpp::train {

namespace {

double inverse_square_root(double lr, int64_t warmup_steps, int64_t step) {
  const auto peak = static_cast<double>(std::max<int64_t>(warmup_steps, 1));
  const auto now = static_cast<double>(std::max<int64_t>(step, 1));
  return lr * std::sqrt(peak) / std::sqrt(now);
}

/// What is left of lr - min_lr after `ratio` of the decay.
double share_left(const std::string& style, double ratio) {
  if (style == "linear") return 1 - ratio;
  if (style == "cosine") return 0.5 * (std::cos(std::numbers::pi * ratio) + 1);
  throw ConfigError("lr_decay_style is '" + style +
                    "'; valid are constant, linear, cosine, inverse-square-root");
}

}  // namespace

double LrSchedule::at(int64_t step) const {
  expects(step >= 0, "lr schedule: steps count from 0");
  if (warmup_steps > 0 && step <= warmup_steps) {
    return warmup_init +
           (lr - warmup_init) * static_cast<double>(step) / static_cast<double>(warmup_steps);
  }
  if (decay_style == "constant") return lr;
  if (step > decay_steps) return min_lr;
  if (decay_style == "inverse-square-root") {
    return std::max(min_lr, inverse_square_root(lr, warmup_steps, step));
  }
  expects(decay_steps > warmup_steps, "lr schedule: the decay takes at least one step");
  const double ratio =
      static_cast<double>(step - warmup_steps) / static_cast<double>(decay_steps - warmup_steps);
  return min_lr + share_left(decay_style, ratio) * (lr - min_lr);
}

}  // namespace verlcpp::train
