#pragma once

#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "data/trajectory.h"
#include "model/model_config.h"
#include "parallel/rank_device.h"
#include "tensor/backend.h"
#include "train/engine.h"

namespace verlcpp::train {

/// Whole tensors by Hugging Face name.
using GlobalTensors = std::map<std::string, std::vector<double>>;

/// What a few updates came to. Whole tensors and global sums: any layout gives the same.
struct LayoutResult {
  std::vector<double> losses, grad_norms;  // of each mini-batch
  std::vector<double> loss_scales;         // sum of |loss weight x advantage| of its tokens
  std::vector<GlobalTensors> gradients;    // of each mini-batch, summed, before clipping
  GlobalTensors weights;                   // after the last
  double clipped_tokens = 0;               // whose ratio was clipped
  MemoryBytes peak_bytes;                  // each number of the rank where it is largest
};

struct LayoutRun {
  const TrainConfig& config;
  const model::ModelConfig& model;
  std::span<const data::Trajectory> batch;  // recorded; every update takes all of it
  int64_t updates = 1;                      // steps of ppo_epochs x mini-batches each
  DType dtype = DType::kFloat64;
  parallel::MakeDevice make_device = {};
  /// Fills the actor's, or the reference's, weights.
  std::function<void(Backend&, const model::ParameterBuffer&, bool reference)> load_weights = {};
  /// Changes the update's planner (tests: shuffled packing, faults); may be empty.
  std::function<Planner(Planner)> change_planner = {};
};

/// Runs log-prob passes, advantages and updates of a configuration on thread ranks in its layout.
/// Nothing is written.
LayoutResult run_layout(const LayoutRun& run);

/// |a - b| / |b|, L2, where |b| is at least `floor`; infinite when sizes or names differ or
/// a value is NaN.
double relative_difference(std::span<const double> a, std::span<const double> b, double floor);
double relative_difference(const GlobalTensors& a, const GlobalTensors& b, double floor);

/// The largest relative differences of a layout's result from another's. A loss is a sum whose
/// terms may cancel (advantages of a group add up to zero) while their rounding errors do not, so
/// losses are relative to the size of their terms, loss_scales, where that is larger.
struct LayoutDifference {
  double losses = 0, grad_norms = 0, gradients = 0, weights = 0;
  double largest() const;
};
LayoutDifference difference(const LayoutResult& got, const LayoutResult& want, double floor);

}  // namespace verlcpp::train
