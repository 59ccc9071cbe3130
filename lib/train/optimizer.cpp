#include "train/optimizer.h"

#include <fmt/format.h>

#include <cmath>
#include <string>

#include "base/error.h"
#include "train/validate_findings.h"

namespace verlcpp::train {

Optimizer::Optimizer(const Engine& engine, const model::ParameterLayout& layout, DType dtype,
                     Options options)
    : engine_(engine),
      options_(options),
      share_(layout.share(engine.pool_rank())),
      exp_avg_(engine.backend, layout, model::statistics_dtype(dtype), MemoryTag::kOptimizer,
               options.distributed ? share_ : layout.whole()),
      exp_avg_sq_(engine.backend, layout, model::statistics_dtype(dtype), MemoryTag::kOptimizer,
                  exp_avg_.range()) {
  expects(options.eps > 0, "AdamW needs an eps: the zeros between tensors take part in a step");
  if (dtype == exp_avg_.flat().dtype()) return;
  master_.emplace(engine.backend, layout, exp_avg_.flat().dtype(), MemoryTag::kOptimizer,
                  exp_avg_.range());
}

void Optimizer::take_master(const model::ParameterBuffer& weights) {
  if (master_) engine_.backend.copy(master_->flat(), weights.slice(master_->range()));
}

const model::ParameterBuffer& Optimizer::master(const model::ParameterBuffer& weights) const {
  return master_ ? *master_ : weights;
}

void Optimizer::restore_weights(const model::ParameterBuffer& weights) const {
  if (!master_) return;
  engine_.backend.copy(weights.slice(master_->range()), master_->flat());
  gather(weights);
}

void Optimizer::gather(const model::ParameterBuffer& weights) const {
  if (!options_.distributed) return;
  engine_.comm.grad.all_gather(weights.flat(), weights.slice(share_)).wait();
}

double Optimizer::grad_norm(const model::ParameterBuffer& grad) const {
  Backend& backend = engine_.backend;
  const Tensor squares = backend.allocate(DType::kFloat64, {1}, MemoryTag::kWorkspace);
  backend.fill_zero(squares);
  for (const model::FlatRange& range : grad.layout().owned(share_)) {
    backend.sum_squares(squares, grad.slice(range));
  }
  engine_.comm.grad.all_reduce(squares, parallel::ReduceOp::kSum).wait();
  engine_.comm.tp.all_reduce(squares, parallel::ReduceOp::kSum).wait();
  return std::sqrt(download(backend, squares)[0]);
}

double Optimizer::step(const model::ParameterBuffer& weights, const model::ParameterBuffer& grad,
                       double lr) {
  const double norm = grad_norm(grad);
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
  update(weights, grad, weights.layout().undecayed(), adamw);
  adamw.weight_decay = options_.weight_decay;
  update(weights, grad, weights.layout().decayed(), adamw);
  gather(weights);
  return norm;
}

void Optimizer::update(const model::ParameterBuffer& weights, const model::ParameterBuffer& grad,
                       const model::FlatRange& range, const AdamWOptions& adamw) const {
  const model::FlatRange part = intersection(range, exp_avg_.range());
  if (part.count == 0) return;
  engine_.backend.adamw(weights.slice(part), master(weights).slice(part), grad.slice(part),
                        exp_avg_.slice(part), exp_avg_sq_.slice(part), adamw);
}

Optimizer::Options optimizer_options(const ActorConfig& config) {
  return {.beta1 = config.optim.betas.at(0),
          .beta2 = config.optim.betas.at(1),
          .eps = 1e-8,
          .weight_decay = config.optim.weight_decay,
          .clip_grad = config.optim.clip_grad,
          .distributed = config.megatron.use_distributed_optimizer};
}

LrSchedule lr_schedule(const OptimConfig& config, int64_t total_training_steps) {
  const int64_t total =
      config.total_training_steps > 0 ? config.total_training_steps : total_training_steps;
  const int64_t decay = config.lr_decay_steps.value_or(total);
  const int64_t warmup =
      config.lr_warmup_steps.value_or(-1) > 0
          ? *config.lr_warmup_steps
          : static_cast<int64_t>(config.lr_warmup_steps_ratio * static_cast<double>(decay));
  return {.lr = config.lr,
          .min_lr = config.min_lr,
          .warmup_init = config.lr_warmup_init,
          .warmup_steps = warmup,
          .decay_steps = decay,
          .decay_style = config.lr_decay_style};
}

void check_warmup(const OptimConfig& config, int64_t total_training_steps,
                  const config::Node& tree) {
  const LrSchedule schedule = lr_schedule(config, total_training_steps);
  if (schedule.warmup_steps == 0 || schedule.warmup_steps < schedule.decay_steps) return;
  const Findings findings(tree);
  const auto about = [&](const std::string& field) {
    return findings.about("actor_rollout_ref.actor.optim." + field);
  };
  const auto steps = [](int64_t n) { return fmt::format("{} step{}", n, n == 1 ? "" : "s"); };
  const std::string decay = config.lr_decay_steps ? about("lr_decay_steps")
                            : config.total_training_steps > 0
                                ? about("total_training_steps")
                                : "all that this run trains; " + about("lr_decay_steps");
  throw ConfigError(fmt::format(
      "the learning rate's warm-up takes {} ({}) but must end before its decay, of {} ({})",
      steps(schedule.warmup_steps),
      about(config.lr_warmup_steps.value_or(-1) > 0 ? "lr_warmup_steps" : "lr_warmup_steps_ratio"),
      steps(schedule.decay_steps), decay));
}

}  // namespace verlcpp::train
