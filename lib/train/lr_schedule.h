#pragma once

#include <cstdint>
#include <string>

namespace verlcpp::train {

/// Megatron's OptimizerParamScheduler as verl builds it: linear warm-up from lr_warmup_init to lr
/// over warmup_steps, then constant, linear, cosine or inverse-square-root decay to min_lr by
/// decay_steps.
struct LrSchedule {
  double lr = 0, min_lr = 0, warmup_init = 0;
  int64_t warmup_steps = 0;
  int64_t decay_steps = 0;
  std::string decay_style = "constant";  // constant, linear, cosine, inverse-square-root

  /// Learning rate of update number `step` (0-based: before any scheduler step it is 0).
  double at(int64_t step) const;
};

}  // namespace verlcpp::train
