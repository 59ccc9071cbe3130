#include "on_policy_case.h"

#include <algorithm>
#include <cmath>

#include "parallel/thread_ranks.h"
#include "train/log_prob_pass.h"
#include "train/pipeline.h"
#include "train/update_pass.h"

namespace verlcpp::test {
namespace {

using namespace train;

double largest(const std::vector<double>& a, const std::vector<double>& b) {
  double difference = a.size() == b.size() ? 0 : HUGE_VAL;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    const double d = std::abs(a[i] - b[i]);
    difference = std::isnan(d) ? HUGE_VAL : std::max(difference, d);
  }
  return difference;
}

TokenValues pass(const Engine& engine, const model::ParameterBuffer& weights,
                 const std::vector<data::Trajectory>& batch, const TrainConfig& config, Pass kind) {
  const auto plan = make_planner(batching_rule(config, kind))(lengths_of(batch));
  return log_prob_pass(engine, weights, batch, plan).value().log_prob;
}

OnPolicyDifference measure(const Engine& engine, const MemoryCase& c, const TrainConfig& config,
                           DType dtype) {
  const model::ParameterLayout layout(c.model, engine.topology.sizes().pool(),
                                      engine.transformer.tp_place());
  const model::ParameterBuffer weights(engine.backend, layout, dtype, MemoryTag::kWeights);
  initialize(engine.backend, weights, 1);
  const auto batch = rollout_batch(engine, weights, config, memory_inputs(c, config), 0).value();
  const TokenValues old = pass(engine, weights, batch, config, Pass::kOldLogProb);

  OnPolicyDifference difference;
  for (size_t i = 0; i < batch.size(); ++i) {
    difference.sampled = std::max(difference.sampled, largest(batch[i].rollout_log_probs, old[i]));
  }
  const auto first =
      mini_batches(static_cast<int64_t>(batch.size()), update_options(config), 0).at(0);
  std::vector<data::Trajectory> mini;
  for (const int i : first) mini.push_back(batch[static_cast<size_t>(i)]);
  const TokenValues now = pass(engine, weights, mini, config, Pass::kActorUpdate);
  for (size_t i = 0; i < mini.size(); ++i) {
    difference.updated =
        std::max(difference.updated, largest(now[i], old[static_cast<size_t>(first[i])]));
  }
  return difference;
}

}  // namespace

OnPolicyDifference on_policy_difference(const MemoryCase& c, const TrainConfig& config,
                                        const parallel::MakeDevice& make_device) {
  const DType dtype = dtype_named(config.actor_rollout_ref.actor.megatron.dtype).value();
  OnPolicyDifference difference;  // written by rank 0 alone; all ranks have the same
  parallel::run_thread_ranks(
      batching_rule(config, Pass::kActorUpdate).sizes,
      [&](const parallel::Topology& topology, parallel::RankCommunicators comm) {
        const parallel::RankDevice device = make_device(topology, comm);
        const model::Transformer transformer = make_transformer(
            *device.backend, c.model, dtype, config.actor_rollout_ref, device.comm);
        const Engine engine{*device.backend, transformer, topology, device.comm};
        const OnPolicyDifference mine = measure(engine, c, config, dtype);
        if (topology.rank() == 0) difference = mine;
      });
  return difference;
}

}  // namespace verlcpp::test
