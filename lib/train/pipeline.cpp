#include "train/pipeline.h"

#include <algorithm>
#include <chrono>
#include <numeric>

#include "algo/advantage.h"
#include "base/error.h"
#include "base/rng.h"

namespace verlcpp::train {
namespace {

/// What training and validation have in common; `sampling` lacks its key.
rollout::GenerateOptions generate_options(const TrainConfig& config, const Inputs& inputs,
                                          int64_t step, SamplingOptions sampling,
                                          RngPurpose purpose) {
  const RolloutConfig& rollout = config.actor_rollout_ref.rollout;
  rollout::GenerateOptions options;
  options.sampling = sampling;
  options.sampling.key = rng_key(static_cast<uint64_t>(rollout.seed), purpose);
  options.max_response_length = rollout.response_length;
  options.max_num_seqs = rollout.max_num_seqs;
  if (!rollout.ignore_eos) options.eos_token_ids = inputs.model.eos_token_ids;
  options.step = static_cast<uint32_t>(step);
  return options;
}

/// Mean over sequences of the masked mean (verl: apply_kl_penalty's current_kl).
double mean_of_masked_means(std::span<const data::Trajectory> batch, const TokenValues& values) {
  double sum = 0;
  for (size_t s = 0; s < batch.size(); ++s) {
    double total = 0, count = 0;
    for (size_t t = 0; t < values[s].size(); ++t) {
      total += values[s][t] * batch[s].response_mask[t];
      count += batch[s].response_mask[t];
    }
    sum += total / (count + 1e-8);
  }
  return sum / static_cast<double>(batch.size());
}

/// Token-level rewards: the score on the last response token, less beta times the KL of every
/// trainable token when KL is in the reward.
void set_token_rewards(const TrainConfig& config, algo::KlController& kl, StepExperience& step) {
  const Experience& e = step.experience;
  const bool kl_in_reward = config.algorithm.use_kl_in_reward;
  TokenValues divergence;
  step.reward_kl_coef = kl.value();
  for (size_t s = 0; s < e.batch.size(); ++s) {
    auto& rewards = step.token_rewards.emplace_back(e.batch[s].response_ids.size(), 0.0);
    rewards.back() = e.batch[s].reward;
    if (!kl_in_reward) continue;
    auto& kld = divergence.emplace_back(rewards.size());
    for (size_t t = 0; t < rewards.size(); ++t) {
      kld[t] =
          e.batch[s].response_mask[t] *
          algo::kl_penalty(config.algorithm.kl_penalty, e.old_log_prob[s][t], e.ref_log_prob[s][t])
              .value;
      rewards[t] -= step.reward_kl_coef * kld[t];
    }
  }
  if (!kl_in_reward) return;
  step.reward_kl = mean_of_masked_means(e.batch, divergence);
  kl.update(step.reward_kl, static_cast<double>(e.batch.size()));
}

void set_advantages(const TrainConfig& config, StepExperience& step) {
  Experience& e = step.experience;
  std::vector<double> scores;
  std::vector<std::string> groups;
  for (size_t s = 0; s < e.batch.size(); ++s) {
    scores.push_back(
        std::accumulate(step.token_rewards[s].begin(), step.token_rewards[s].end(), 0.0));
    groups.push_back(e.batch[s].uid);
  }
  const auto advantage =
      algo::grpo_advantage(scores, groups, config.algorithm.norm_adv_by_std_in_grpo);
  for (size_t s = 0; s < e.batch.size(); ++s) {
    auto& row = e.advantage.emplace_back(e.batch[s].response_ids.size());
    for (size_t t = 0; t < row.size(); ++t) row[t] = advantage[s] * e.batch[s].response_mask[t];
  }
}

}  // namespace

void PhaseTimer::time(const char* phase, const std::function<void()>& body) {
  if (status_ != nullptr) status_->enter(phase);
  const auto start = std::chrono::steady_clock::now();
  body();
  seconds_[phase] +=
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

int64_t rollout_slots(const TrainConfig& config) {
  const RolloutConfig& rollout = config.actor_rollout_ref.rollout;
  const int64_t responses = config.data.train_batch_size * rollout.n;
  const int64_t pool = batching_rule(config, Pass::kActorUpdate).sizes.pool();
  return std::min(rollout.max_num_seqs, (responses + pool - 1) / pool);
}

RolloutSpec training_rollout(const TrainConfig& config, const Inputs& inputs, int64_t step) {
  const RolloutConfig& rollout = config.actor_rollout_ref.rollout;
  const data::PromptOrder order(static_cast<int64_t>(inputs.rows.size()),
                                config.data.train_batch_size, config.data.shuffle,
                                static_cast<uint64_t>(config.data.seed.value_or(0)));
  RolloutSpec spec{
      .rows = inputs.rows,
      .prompt_ids = inputs.prompt_ids,
      .prompts = order.indices(step),
      .uids = {},
      .n = rollout.n,
      .options = generate_options(config, inputs, step,
                                  {.temperature = rollout.do_sample ? rollout.temperature : 0.0,
                                   .top_k = rollout.top_k,
                                   .top_p = rollout.top_p},
                                  RngPurpose::kSampling)};
  for (const int64_t prompt : spec.prompts) {
    const int64_t row = inputs.rows[static_cast<size_t>(prompt)].row;
    spec.uids.push_back(data::sample_uid(step / inputs.steps_per_epoch, row));
  }
  return spec;
}

RolloutSpec validation_rollout(const TrainConfig& config, const Inputs& inputs, int64_t step) {
  const ValKwargs& validation = config.actor_rollout_ref.rollout.val_kwargs;
  RolloutSpec spec{.rows = inputs.validation.rows,
                   .prompt_ids = inputs.validation.ids,
                   .prompts = std::vector<int64_t>(inputs.validation.rows.size()),
                   .uids = {},
                   .n = validation.n,
                   .options = generate_options(
                       config, inputs, step,
                       {.temperature = validation.do_sample ? validation.temperature : 0.0,
                        .top_k = validation.top_k,
                        .top_p = validation.top_p},
                       RngPurpose::kValidation)};
  std::iota(spec.prompts.begin(), spec.prompts.end(), 0);
  for (const data::PromptRow& row : spec.rows) {
    spec.uids.push_back("v" + std::to_string(step) + "-r" + std::to_string(row.row));
  }
  spec.options.max_num_seqs = rollout_slots(config);
  return spec;
}

std::optional<std::vector<data::Trajectory>> generate_responses(
    const Engine& engine, const model::ParameterBuffer& weights, const RolloutSpec& spec) {
  const double temperature = spec.options.sampling.temperature;
  std::vector<rollout::Request> requests;
  std::vector<data::Trajectory> batch;
  for (size_t prompt = 0; prompt < spec.prompts.size(); ++prompt) {
    const auto i = static_cast<size_t>(spec.prompts[prompt]);
    const data::PromptRow& row = spec.rows[i];
    for (int64_t response = 0; response < spec.n; ++response) {
      requests.push_back(
          {static_cast<uint32_t>(row.row), static_cast<uint32_t>(response), spec.prompt_ids[i]});
      data::Trajectory& t = batch.emplace_back();
      t.uid = spec.uids[prompt];
      t.data_source = row.data_source;
      t.prompt_ids = spec.prompt_ids[i];
      t.temperature = temperature > 0 ? temperature : 1;
    }
  }
  std::optional<std::vector<rollout::Response>> responses = rollout::generate_on_pool(
      engine.backend, engine.transformer, weights, engine.comm, requests, spec.options);
  if (!responses) return {};
  for (size_t i = 0; i < batch.size(); ++i) {
    batch[i].response_ids = std::move((*responses)[i].ids);
    batch[i].rollout_log_probs = std::move((*responses)[i].log_probs);
    batch[i].response_mask.assign(batch[i].response_ids.size(), 1);
  }
  return batch;
}

std::optional<std::vector<data::Trajectory>> rollout_batch(const Engine& engine,
                                                           const model::ParameterBuffer& weights,
                                                           const TrainConfig& config,
                                                           const Inputs& inputs, int64_t step) {
  if (config.actor_rollout_ref.rollout.name == "replay") return inputs.recorded->step(step);
  return generate_responses(engine, weights, training_rollout(config, inputs, step));
}

std::optional<StepExperience> make_experience(const Engine& engine,
                                              const model::ParameterBuffer& actor,
                                              const model::ParameterBuffer* reference,
                                              const TrainConfig& config,
                                              std::vector<data::Trajectory> batch,
                                              algo::KlController& kl, PhaseTimer& timer,
                                              const PlannerOf& planner_of) {
  StepExperience step;
  Experience& e = step.experience;
  e.batch = std::move(batch);
  const auto lengths = lengths_of(e.batch);
  const auto pass = [&](Pass which,
                        const model::ParameterBuffer& weights) -> std::optional<LogProbs> {
    if (engine.comm.world_stop.here()) return {};
    const Planner planner =
        planner_of ? planner_of(which) : make_planner(batching_rule(config, which));
    const schedule::Plan plan = planner(lengths);
    return log_prob_pass(engine, weights, e.batch, plan);
  };
  std::optional<LogProbs> old, of_reference;
  timer.time("old_log_prob", [&] { old = pass(Pass::kOldLogProb, actor); });
  if (!old) return {};
  e.old_log_prob = std::move(old->log_prob);
  step.entropy = std::move(old->entropy);
  if (reference != nullptr) {
    timer.time("ref", [&] { of_reference = pass(Pass::kRefLogProb, *reference); });
    if (!of_reference) return {};
    e.ref_log_prob = std::move(of_reference->log_prob);
  }
  if (engine.comm.world_stop.here()) return {};  // from here on the step is finished
  timer.time("adv", [&] {
    set_token_rewards(config, kl, step);
    set_advantages(config, step);
  });
  return step;
}

double aggregate(const TrainConfig& config, std::span<const data::Trajectory> batch,
                 const TokenValues& values) {
  const UpdateOptions options = update_options(config);
  algo::AggregateTotals totals{
      .tokens = 0, .sequences = static_cast<int64_t>(batch.size()), .horizon = options.horizon};
  for (const data::Trajectory& t : batch) {
    for (uint8_t m : t.response_mask) totals.tokens += m;
  }
  double sum = 0;
  for (size_t s = 0; s < batch.size(); ++s) {
    const auto weight = algo::token_weights(options.loss_agg_mode, batch[s].response_mask, totals);
    for (size_t t = 0; t < weight.size(); ++t) sum += weight[t] * values[s][t];
  }
  return sum;
}

}  // namespace verlcpp::train
