#include "train/update_pass.h"

#include <algorithm>
#include <memory>
#include <numeric>

#include "base/rng.h"
#include "train/gradient.h"

namespace verlcpp::train {
namespace {

/// The mini-batch's part of the experience, re-indexed 0..samples-1. Its own: a loss that was
/// enqueued may run after a step that failed is gone.
struct MiniBatch {
  std::vector<data::Trajectory> batch;
  TokenValues old_log_prob, ref_log_prob, advantage, weight;
};

MiniBatch select(const Experience& experience, std::span<const int> samples,
                 const UpdateOptions& options) {
  MiniBatch mini;
  algo::AggregateTotals totals{
      .tokens = 0, .sequences = static_cast<int64_t>(samples.size()), .horizon = options.horizon};
  for (int sample : samples) {
    const auto s = static_cast<size_t>(sample);
    mini.batch.push_back(experience.batch[s]);
    mini.old_log_prob.push_back(experience.old_log_prob[s]);
    mini.advantage.push_back(experience.advantage[s]);
    if (!experience.ref_log_prob.empty()) mini.ref_log_prob.push_back(experience.ref_log_prob[s]);
    for (uint8_t m : mini.batch.back().response_mask) totals.tokens += m;
  }
  for (const data::Trajectory& t : mini.batch) {
    mini.weight.push_back(algo::token_weights(options.loss_agg_mode, t.response_mask, totals));
  }
  return mini;
}

/// Loss and its gradient on this rank's head rows.
algo::PolicyLossSums local_loss(const MiniBatch& mini, const std::vector<HeadRow>& head,
                                const UpdateOptions& options, std::span<const double> log_prob,
                                std::span<const double> entropy, std::span<double> d_log_prob,
                                std::span<double> d_entropy) {
  const size_t n = head.size();
  std::vector<double> old_log_prob(n), advantage(n), weight(n), ref_log_prob;
  if (options.loss.use_kl_loss) ref_log_prob.resize(n);
  for (size_t i = 0; i < n; ++i) {
    const auto s = static_cast<size_t>(head[i].sample), t = static_cast<size_t>(head[i].token);
    old_log_prob[i] = mini.old_log_prob[s][t];
    advantage[i] = mini.advantage[s][t];
    weight[i] = mini.weight[s][t];
    if (options.loss.use_kl_loss) ref_log_prob[i] = mini.ref_log_prob[s][t];
  }
  return algo::vanilla_policy_loss(options.loss,
                                   {.log_prob = log_prob,
                                    .old_log_prob = old_log_prob,
                                    .advantage = advantage,
                                    .weight = weight,
                                    .ref_log_prob = ref_log_prob,
                                    .entropy = entropy},
                                   d_log_prob, d_entropy);
}

/// The loss is host code between forward and backward; nobody waits for it. `sums` grows when it
/// runs.
model::TokenGradients enqueue_loss(Backend& backend, const Tensor& log_prob, const Tensor& entropy,
                                   std::shared_ptr<const MiniBatch> mini, std::vector<HeadRow> head,
                                   const UpdateOptions& options,
                                   std::shared_ptr<algo::PolicyLossSums> sums) {
  const auto like = [&](const Tensor& x) {
    return backend.allocate(x.dtype(), x.shape(), MemoryTag::kWorkspace);
  };
  model::TokenGradients d_loss{like(log_prob), like(entropy), {}};
  d_loss.ready =
      compute_on_host(backend, {log_prob, entropy}, {d_loss.log_prob_C, d_loss.entropy_C},
                      [mini = std::move(mini), head = std::move(head), options,
                       sums = std::move(sums)](const HostValues& in, HostValues& d) {
                        sums->add(local_loss(*mini, head, options, in[0], in[1], d[0], d[1]));
                      });
  return d_loss;
}

algo::PolicyLossSums sum_over_pool(const Engine& engine, const algo::PolicyLossSums& mine) {
  const double values[] = {mine.pg_loss,       mine.kl_loss, mine.entropy_loss, mine.clipped,
                           mine.clipped_lower, mine.ppo_kl,  mine.tokens};
  const auto sums = engine.sum_over_pool(values);
  return {.pg_loss = sums[0],
          .kl_loss = sums[1],
          .entropy_loss = sums[2],
          .clipped = sums[3],
          .clipped_lower = sums[4],
          .ppo_kl = sums[5],
          .tokens = sums[6]};
}

}  // namespace

UpdateOptions update_options(const TrainConfig& config) {
  const ActorConfig& actor = config.actor_rollout_ref.actor;
  UpdateOptions options;
  options.loss = {.clip_ratio_low = actor.clip_ratio_low.value_or(actor.clip_ratio),
                  .clip_ratio_high = actor.clip_ratio_high.value_or(actor.clip_ratio),
                  .clip_ratio_c = actor.clip_ratio_c,
                  .use_kl_loss = actor.use_kl_loss,
                  .kl_loss_coef = actor.kl_loss_coef,
                  .kl_loss_type = actor.kl_loss_type,
                  .entropy_coeff = actor.entropy_coeff};
  options.loss_agg_mode = algo::parse_loss_agg_mode(actor.loss_agg_mode);
  options.horizon =
      actor.loss_scale_factor.value_or(static_cast<double>(config.data.max_response_length));
  options.mini_batch_size = actor.ppo_mini_batch_size * config.actor_rollout_ref.rollout.n;
  options.epochs = actor.ppo_epochs;
  options.shuffle = actor.shuffle;
  options.shuffle_seed = static_cast<uint64_t>(actor.data_loader_seed);
  return options;
}

std::vector<std::vector<int>> mini_batches(int64_t samples, const UpdateOptions& options,
                                           int64_t step) {
  const PhiloxKey key = rng_key(options.shuffle_seed, RngPurpose::kMiniBatchOrder);
  std::vector<std::vector<int>> result;
  for (int64_t epoch = 0; epoch < options.epochs; ++epoch) {
    std::vector<int64_t> order(static_cast<size_t>(samples));
    std::iota(order.begin(), order.end(), int64_t{0});
    if (options.shuffle) {
      order =
          random_permutation(samples, key, static_cast<uint64_t>(step * options.epochs + epoch));
    }
    for (int64_t first = 0; first < samples; first += options.mini_batch_size) {
      const int64_t last = std::min(samples, first + options.mini_batch_size);
      result.emplace_back(order.begin() + first, order.begin() + last);
    }
  }
  return result;
}

algo::PolicyLossSums accumulate_gradient(const Engine& engine, const ActorState& actor,
                                         const Experience& experience, std::span<const int> samples,
                                         const UpdateOptions& options, const Planner& planner,
                                         ScheduleStats& stats) {
  const auto mini = std::make_shared<const MiniBatch>(select(experience, samples, options));
  const auto tokens = token_rows(mini->batch);
  const auto lengths = lengths_of(mini->batch);
  const schedule::Plan plan = planner(lengths);
  stats.add(plan, lengths, engine.topology.sizes().tp);

  const model::ContextParallelAttention attention(engine.backend, &engine.comm.cp);
  const auto sums = std::make_shared<algo::PolicyLossSums>();
  // Reports count micro-batches through the whole update.
  int64_t number = stats.micro_batches - static_cast<int64_t>(plan.micro_batches.size());
  bool add = false;  // every rank has a part in every micro-batch, so the first overwrites
  for (const schedule::MicroBatch& micro_batch : plan.micro_batches) {
    engine.comm.status.micro_batch(++number);
    const RankMicroBatch mine = prepare(engine, micro_batch, mini->batch, tokens);
    const auto loss = [&](int64_t first, const Tensor& log_prob, const Tensor& entropy) {
      const auto rows = mine.head.begin() + first;
      return enqueue_loss(engine.backend, log_prob, entropy, mini, {rows, rows + log_prob.numel()},
                          options, sums);
    };
    engine.transformer.train(actor.weights, mine.device, attention, engine.recompute, loss,
                             actor.grad, add);
    add = true;
  }
  reduce_gradient(engine, actor.grad, actor.optimizer.distributed());
  engine.backend.synchronize();  // the sums are complete
  return sum_over_pool(engine, *sums);
}

std::vector<MiniBatchResult> update_pass(const Engine& engine, const ActorState& actor,
                                         const Experience& experience, const UpdateOptions& options,
                                         const Planner& planner, int64_t step, double lr,
                                         ScheduleStats& stats) {
  std::vector<MiniBatchResult> results;
  const auto samples = static_cast<int64_t>(experience.batch.size());
  for (const std::vector<int>& mini_batch : mini_batches(samples, options, step)) {
    MiniBatchResult result;
    result.sums =
        accumulate_gradient(engine, actor, experience, mini_batch, options, planner, stats);
    result.loss = result.sums.total(options.loss);
    result.grad_norm = actor.optimizer.step(actor.weights, actor.grad, lr);
    results.push_back(result);
  }
  return results;
}

}  // namespace verlcpp::train
