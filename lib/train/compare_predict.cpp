#include "train/compare_predict.h"

#include "train/update_pass.h"

namespace verlcpp::train {
namespace {

// Forward and backward, in forward passes.
constexpr double kUpdateWork = 3;
constexpr int64_t kGpus[] = {2, 4, 8};

/// `arm` on one node of `gpus`, its static packs as large as before.
CompareArm on_gpus(const CompareArm& arm, int64_t gpus, int64_t pool, int64_t limit) {
  CompareArm out = arm;
  TrainConfig& config = out.config;
  config.trainer.nnodes = 1;
  config.trainer.n_gpus_per_node = gpus;
  config.trainer.ranks_per_gpu = 1;
  ActorRolloutRefConfig& roles = config.actor_rollout_ref;
  for (MegatronConfig* megatron : {&roles.actor.megatron, &roles.ref.megatron}) {
    megatron->context_parallel_size = pool;
    megatron->max_seqlen_per_dp_cp_rank =
        config::Node(limit, config::Origin{"predicted", config::Origin::Source::kFlag});
  }
  roles.actor.ppo_max_token_len_per_gpu = limit;
  roles.rollout.log_prob_max_token_len_per_gpu = limit;
  roles.ref.log_prob_max_token_len_per_gpu = limit;
  return out;
}

}  // namespace

schedule::CostModel layer_cost(const model::ModelConfig& model) {
  const auto d = static_cast<double>(model.hidden), h = static_cast<double>(model.head_dim);
  const auto n = static_cast<double>(model.heads), k = static_cast<double>(model.kv_heads);
  const double matrices = d * (n + 2 * k) * h + n * h * d + 3 * d * static_cast<double>(model.ffn);
  // Two operations a parameter and token; two products of L^2 / 2 rows, N heads, H wide.
  return {.linear = 2 * matrices, .quadratic = 2 * n * h};
}

PassCosts compare_costs(const TrainConfig& config, const model::ModelConfig& model) {
  const PassCosts& costs = config.actor_rollout_ref.actor.megatron.costs;
  if (costs.measured) return costs;
  PassCosts operations{.update = layer_cost(model), .log_prob = layer_cost(model)};
  operations.update.linear *= kUpdateWork;
  operations.update.quadratic *= kUpdateWork;
  return operations;
}

double predicted_step(const CompareArm& arm, std::span<const int64_t> lengths,
                      const PassCosts& costs) {
  const int64_t tp = arm.config.actor_rollout_ref.actor.megatron.tensor_model_parallel_size;
  const double log_prob =
      schedule::makespan(costs.log_prob, arm_planner(arm, Pass::kOldLogProb)(lengths), lengths, tp);
  double sum = log_prob;
  if (arm.config.uses_reference()) {
    sum += schedule::makespan(costs.log_prob, arm_planner(arm, Pass::kRefLogProb)(lengths), lengths,
                              tp);
  }
  const Planner planner = arm_planner(arm, Pass::kActorUpdate);
  for (const auto& samples :
       mini_batches(static_cast<int64_t>(lengths.size()), update_options(arm.config), 0)) {
    std::vector<int64_t> mini;
    for (int sample : samples) mini.push_back(lengths[static_cast<size_t>(sample)]);
    sum += schedule::makespan(costs.update, planner(mini), mini, tp) + costs.mini_batch;
  }
  return sum;
}

std::vector<PredictedStep> predict_steps(std::span<const CompareArm> arms,
                                         std::span<const int64_t> lengths, const PassCosts& costs) {
  const parallel::AxisSizes sizes = batching_rule(arms.front().config, Pass::kActorUpdate).sizes;
  const int64_t pack = compare_limit(arms.front()) * sizes.cp;
  int64_t smallest = 2;
  for (const CompareArm& arm : arms) {
    const auto dcp = batching_rule(arm.config, Pass::kActorUpdate).dcp;
    if (dcp) smallest = std::max(smallest, dcp->min_cp);
  }
  std::vector<PredictedStep> steps;
  for (const int64_t gpus : kGpus) {
    const int64_t pool = gpus / sizes.tp;
    if (pool * sizes.tp != gpus || pool < smallest || pool % 2 != 0) continue;
    PredictedStep& step = steps.emplace_back();
    step.gpus = gpus;
    step.cp = pool;
    step.limit = (pack + pool - 1) / pool;
    for (const CompareArm& arm : arms) {
      const CompareArm there = on_gpus(arm, gpus, pool, step.limit);
      step.seconds.push_back(predicted_step(there, lengths, costs));
    }
  }
  return steps;
}

}  // namespace verlcpp::train
