#include "train/optimizer.h"

#include <cmath>
#include <string>

#include "base/error.h"

namespace verlcpp::train {

Optimizer::Optimizer(Backend& backend, const model::ParameterLayout& layout, DType dtype,
                     Options options)
    : backend_(backend),
      options_(options),
      exp_avg_(backend, layout, dtype, MemoryTag::kOptimizer),
      exp_avg_sq_(backend, layout, dtype, MemoryTag::kOptimizer) {}

double Optimizer::step(const model::ParameterBuffer& weights, const model::ParameterBuffer& grad,
                       double lr) {
  const Tensor squares = backend_.allocate(DType::kFloat64, {1}, MemoryTag::kWorkspace);
  backend_.fill_zero(squares);
  backend_.sum_squares(squares, grad.flat());
  const double norm = std::sqrt(download(backend_, squares)[0]);

  if (!std::isfinite(norm)) return norm;  // it would turn every weight into NaN

  AdamWOptions adamw{.lr = lr,
                     .beta1 = options_.beta1,
                     .beta2 = options_.beta2,
                     .eps = options_.eps,
                     .weight_decay = 0,
                     .step = ++steps_,
                     .grad_scale = 1};
  // Megatron's clip_grad_by_total_norm: clip_grad <= 0 switches clipping off.
  if (options_.clip_grad > 0) {
    const double coefficient = options_.clip_grad / (norm + 1e-6);
    if (coefficient < 1) adamw.grad_scale = coefficient;
  }
  for (const model::ParamSpec& spec : weights.layout().specs()) {
    adamw.weight_decay = spec.decay ? options_.weight_decay : 0;
    backend_.adamw(weights.at(spec.name), grad.at(spec.name), exp_avg_.at(spec.name),
                   exp_avg_sq_.at(spec.name), adamw);
  }
  return norm;
}

Optimizer::Options optimizer_options(const OptimConfig& config) {
  return {.beta1 = config.betas.at(0),
          .beta2 = config.betas.at(1),
          .eps = 1e-8,
          .weight_decay = config.weight_decay,
          .clip_grad = config.clip_grad};
}

LrSchedule lr_schedule(const OptimConfig& config, int64_t total_training_steps) {
  const int64_t total =
      config.total_training_steps > 0 ? config.total_training_steps : total_training_steps;
  const int64_t decay = config.lr_decay_steps.value_or(total);
  const int64_t warmup =
      config.lr_warmup_steps > 0
          ? config.lr_warmup_steps
          : static_cast<int64_t>(config.lr_warmup_steps_ratio * static_cast<double>(decay));
  if (warmup > 0 && warmup >= decay) {
    throw ConfigError("actor_rollout_ref.actor.optim: warm-up takes " + std::to_string(warmup) +
                      " steps (lr_warmup_steps, or lr_warmup_steps_ratio of the decay steps) and "
                      "must end before the " +
                      std::to_string(decay) +
                      " decay steps (lr_decay_steps, else the total training steps)");
  }
  return {.lr = config.lr,
          .min_lr = config.min_lr,
          .warmup_init = config.lr_warmup_init,
          .warmup_steps = warmup,
          .decay_steps = decay,
          .decay_style = config.lr_decay_style};
}

}  // namespace verlcpp::train
