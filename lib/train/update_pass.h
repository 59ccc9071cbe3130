#pragma once

#include <span>
#include <vector>

#include "algo/aggregate.h"
#include "algo/policy_loss.h"
#include "train/engine.h"
#include "train/log_prob_pass.h"
#include "train/optimizer.h"

namespace verlcpp::train {

/// A step's experience: the trajectories in global order and what the update needs of each response
/// token.
struct Experience {
  std::vector<data::Trajectory> batch;
  TokenValues old_log_prob, ref_log_prob, advantage;  // ref_log_prob may be empty
};

struct UpdateOptions {
  algo::PolicyLossOptions loss;
  algo::LossAggMode loss_agg_mode = algo::LossAggMode::kTokenMean;
  double horizon = 1;           // of seq-mean-token-sum-norm
  int64_t mini_batch_size = 1;  // responses: ppo_mini_batch_size x rollout.n
  int64_t epochs = 1;
  bool shuffle = false;
  uint64_t shuffle_seed = 42;
};
UpdateOptions update_options(const TrainConfig& config);

/// What one mini-batch (one optimizer step) did; sums are over the pool.
struct MiniBatchResult {
  algo::PolicyLossSums sums;
  double loss = 0;
  double grad_norm = 0;  // before clipping
};

/// Sample indices of every mini-batch of one update, in order: consecutive slices of the global
/// order (or of one shuffled per epoch), never of a rank's share. A function of (seed, step, epoch)
/// alone.
std::vector<std::vector<int>> mini_batches(int64_t samples, const UpdateOptions& options,
                                           int64_t step);

/// The actor's weights, gradient and optimizer on one rank.
struct ActorState {
  const model::ParameterBuffer& weights;
  const model::ParameterBuffer& grad;
  Optimizer& optimizer;
};

/// Gradient of one mini-batch's loss into actor.grad, summed by reduce_gradient. Loss weights come
/// from the mini-batch's global token and sequence counts, so nothing is scaled by DP or CP
/// afterwards.
algo::PolicyLossSums accumulate_gradient(const Engine& engine, const ActorState& actor,
                                         const Experience& experience, std::span<const int> samples,
                                         const UpdateOptions& options, const Planner& planner,
                                         ScheduleStats& stats);

/// All epochs and mini-batches of one step.
std::vector<MiniBatchResult> update_pass(const Engine& engine, const ActorState& actor,
                                         const Experience& experience, const UpdateOptions& options,
                                         const Planner& planner, int64_t step, double lr,
                                         ScheduleStats& stats);

}  // namespace verlcpp::train
