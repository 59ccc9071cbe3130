#pragma once

#include <cstdint>
#include <optional>

#include "model/parameters.h"
#include "train/engine.h"
#include "train/lr_schedule.h"
#include "train/train_config.h"

namespace verlcpp::train {

/// AdamW over the flat buffers with clipping by the global gradient norm (Megatron's order: norm,
/// clip, step). No weight decay on biases and one-dimensional tensors. Distributed (ZeRO-1,
/// Rajbhandari et al. 2020), each rank of the DPxCP pool keeps the moments of its share of the flat
/// buffer and updates that; the weights are gathered afterwards.
class Optimizer {
 public:
  struct Options {
    double beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0, clip_grad = 1;
    bool distributed = true;
  };
  Optimizer(const Engine& engine, const model::ParameterLayout& layout, DType dtype,
            Options options);

  /// One step on a gradient after reduce_gradient(engine, grad, distributed()); every rank of the
  /// world calls it. Returns the norm before clipping, over all TP ranks, each parameter counted
  /// once; when it is not finite nothing is changed.
  double step(const model::ParameterBuffer& weights, const model::ParameterBuffer& grad, double lr);

  /// Call once the weights are loaded: master weights of at least float32 start from them. Where
  /// the weights are that wide they are their own master.
  void take_master(const model::ParameterBuffer& weights);
  /// Master weights of the elements this rank updates, to be written and read by checkpoints;
  /// `weights` themselves where they are wide enough.
  const model::ParameterBuffer& master(const model::ParameterBuffer& weights) const;
  /// The weights again from a master that was loaded; every rank of the pool calls it.
  void restore_weights(const model::ParameterBuffer& weights) const;

  bool distributed() const { return options_.distributed; }
  /// Over the elements this rank updates: its share, or everything.
  const model::ParameterBuffer& exp_avg() const { return exp_avg_; }
  const model::ParameterBuffer& exp_avg_sq() const { return exp_avg_sq_; }
  int64_t steps() const { return steps_; }
  void set_steps(int64_t steps) { steps_ = steps; }  // resume

 private:
  double grad_norm(const model::ParameterBuffer& grad) const;
  /// One pass over what this rank updates of `range`. Zeros between tensors stay zero: with a
  /// gradient and moments of zero the step is 0 / eps.
  void update(const model::ParameterBuffer& weights, const model::ParameterBuffer& grad,
              const model::FlatRange& range, const AdamWOptions& adamw) const;
  void gather(const model::ParameterBuffer& weights) const;

  const Engine& engine_;
  Options options_;
  model::FlatRange share_;
  model::ParameterBuffer exp_avg_, exp_avg_sq_;
  std::optional<model::ParameterBuffer> master_;  // where weights are stored in 16 bits
  int64_t steps_ = 0;
};

Optimizer::Options optimizer_options(const ActorConfig& config);
/// verl: decay ends at lr_decay_steps, else at the run's total; warm-up is lr_warmup_steps, or its
/// ratio of the decay steps.
LrSchedule lr_schedule(const OptimConfig& config, int64_t total_training_steps);
/// Throws ConfigError, with the origins of `tree`, unless warm-up ends before decay does
/// (Megatron).
void check_warmup(const OptimConfig& config, int64_t total_training_steps,
                  const config::Node& tree);

}  // namespace verlcpp::train
