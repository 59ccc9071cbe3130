#include "on_policy_case.h"

#include <algorithm>
#include <cmath>

#include "model/linear_loss.h"
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

TokenValues old_log_probs(const Engine& engine, const model::ParameterBuffer& weights,
                          const std::vector<data::Trajectory>& batch, const TrainConfig& config) {
  const auto plan = make_planner(batching_rule(config, Pass::kOldLogProb))(lengths_of(batch));
  return log_prob_pass(engine, weights, batch, plan).value().log_prob;
}

/// Of the update's own forward, which goes straight on to a gradient (of nothing).
TokenValues trained(const Engine& engine, const model::ParameterBuffer& weights,
                    const std::vector<data::Trajectory>& batch, const TrainConfig& config) {
  const model::ParameterBuffer grad(engine.backend, weights.layout(),
                                    model::statistics_dtype(weights.flat().dtype()),
                                    MemoryTag::kMainGrad);
  engine.backend.fill_zero(grad.flat());
  std::vector<size_t> offset{0};
  for (const data::Trajectory& t : batch) offset.push_back(offset.back() + t.response_ids.size());
  std::vector<double> flat(offset.back(), 0.0);
  const auto tokens = token_rows(batch);
  const auto plan = make_planner(batching_rule(config, Pass::kActorUpdate))(lengths_of(batch));
  const model::ContextParallelAttention attention(engine.backend, &engine.comm.cp);
  for (const schedule::MicroBatch& micro_batch : plan.micro_batches) {
    const RankMicroBatch mine = prepare(engine, micro_batch, batch, tokens);
    const std::vector<double> zeros(mine.head.size(), 0.0);
    TokenRecord record;
    engine.transformer.train(weights, mine.device, attention, {},
                             linear_loss(engine.backend, zeros, zeros, &record), grad);
    for (size_t i = 0; i < mine.head.size(); ++i) {
      const HeadRow& row = mine.head[i];
      flat[offset[static_cast<size_t>(row.sample)] + static_cast<size_t>(row.token)] =
          record.log_prob.at(i);
    }
  }
  const std::vector<double> whole = engine.sum_over_pool(flat);
  TokenValues values;
  for (size_t s = 0; s < batch.size(); ++s) {
    values.emplace_back(whole.begin() + static_cast<std::ptrdiff_t>(offset[s]),
                        whole.begin() + static_cast<std::ptrdiff_t>(offset[s + 1]));
  }
  return values;
}

OnPolicyDifference measure(const Engine& engine, const MemoryCase& c, const TrainConfig& config,
                           DType dtype) {
  const model::ParameterLayout layout(c.model, engine.topology.sizes().pool(),
                                      engine.transformer.tp_place());
  const model::ParameterBuffer weights(engine.backend, layout, dtype, MemoryTag::kWeights);
  initialize(engine.backend, weights, 1);
  const auto batch = rollout_batch(engine, weights, config, memory_inputs(c, config), 0).value();
  const TokenValues old = old_log_probs(engine, weights, batch, config);

  OnPolicyDifference difference;
  for (size_t i = 0; i < batch.size(); ++i) {
    difference.sampled = std::max(difference.sampled, largest(batch[i].rollout_log_probs, old[i]));
  }
  const auto first =
      mini_batches(static_cast<int64_t>(batch.size()), update_options(config), 0).at(0);
  std::vector<data::Trajectory> mini;
  for (const int i : first) mini.push_back(batch[static_cast<size_t>(i)]);
  const TokenValues now = trained(engine, weights, mini, config);
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
