#include "train/step_metrics.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <numeric>

#include "schedule/differencing.h"
#include "schedule/static_cp.h"

namespace verlcpp::train {
namespace {

constexpr double kGiB = 1024.0 * 1024.0 * 1024.0;

/// Values of the trainable tokens of a whole batch.
std::vector<double> trainable(std::span<const data::Trajectory> batch, const TokenValues& values) {
  std::vector<double> out;
  for (size_t s = 0; s < batch.size(); ++s) {
    for (size_t t = 0; t < values[s].size(); ++t) {
      if (batch[s].response_mask[t] != 0) out.push_back(values[s][t]);
    }
  }
  return out;
}

void set_lengths(Metrics& metrics, const std::string& name, std::span<const double> lengths,
                 double limit) {
  metrics.set_summary(name, lengths);
  const auto clipped = std::count(lengths.begin(), lengths.end(), limit);
  metrics.set(name + "/clip_ratio",
              static_cast<double>(clipped) / static_cast<double>(lengths.size()));
}

void set_data(const TrainConfig& config, const StepExperience& step, Metrics& metrics) {
  const auto& batch = step.experience.batch;
  std::vector<double> score, reward, prompt, response;
  for (size_t s = 0; s < batch.size(); ++s) {
    score.push_back(batch[s].reward);
    const auto& tokens = step.token_rewards[s];
    reward.push_back(std::accumulate(tokens.begin(), tokens.end(), 0.0));
    prompt.push_back(static_cast<double>(batch[s].prompt_length()));
    response.push_back(static_cast<double>(batch[s].response_length()));
  }
  metrics.set_summary("critic/score", score);
  metrics.set_summary("critic/rewards", reward);
  const auto advantage = trainable(batch, step.experience.advantage);
  metrics.set_summary("critic/advantages", advantage);
  metrics.set_summary("critic/returns", advantage);  // GRPO: returns are the advantages
  const auto response_limit = static_cast<double>(config.actor_rollout_ref.rollout.response_length);
  set_lengths(metrics, "response_length", response, response_limit);
  set_lengths(metrics, "response_length_non_aborted", response, response_limit);
  metrics.set("response/aborted_ratio", 0);  // a response has at least one token
  set_lengths(metrics, "prompt_length", prompt, static_cast<double>(config.data.max_prompt_length));
}

/// The numbers among the extras of the rewards (an acc alone is the score again), and what a reward
/// program could not score.
void set_reward_extras(const StepExperience& step, Metrics& metrics) {
  std::map<std::string, std::vector<double>> numbers;
  for (const data::Trajectory& t : step.experience.batch) {
    if (t.reward_extras.size() == 1 && t.reward_extras[0].name == "acc") continue;
    for (const data::RewardExtra& extra : t.reward_extras) {
      if (extra.number) numbers[extra.name].push_back(*extra.number);
    }
  }
  for (const auto& [name, values] : numbers) {
    const double sum = std::accumulate(values.begin(), values.end(), 0.0);
    metrics.set("reward/" + name + "/mean", sum / static_cast<double>(values.size()));
  }
  if (!step.program) return;
  metrics.set("reward/failures", static_cast<double>(step.program->failures));
  metrics.set("reward/restarts", static_cast<double>(step.program->restarts));
}

/// verl's log_seqlen_unbalance: token sums of the data-parallel shares, as they come and balanced.
void set_global_seqlen(const TrainConfig& config, std::span<const data::Trajectory> batch,
                       Metrics& metrics) {
  const BatchingRule rule = batching_rule(config, Pass::kActorUpdate);
  const auto dp =
      static_cast<size_t>(rule.dcp ? 1 : rule.sizes.dp());  // verl: DCP reports one share
  if (batch.size() % dp != 0) return;
  const auto lengths = lengths_of(batch);
  std::vector<int64_t> work;
  for (int64_t l : lengths) work.push_back(static_cast<int64_t>(schedule::workload(l)));
  std::vector<double> plain(dp), balanced(dp);
  for (size_t i = 0; i < lengths.size(); ++i) {
    plain[i / (lengths.size() / dp)] += static_cast<double>(lengths[i]);
  }
  const auto parts = schedule::karmarkar_karp(work, static_cast<int>(dp), true);
  for (size_t d = 0; d < dp; ++d) {
    for (int i : parts[d]) balanced[d] += static_cast<double>(lengths[static_cast<size_t>(i)]);
  }
  const auto [low, high] = std::minmax_element(plain.begin(), plain.end());
  const auto [even_low, even_high] = std::minmax_element(balanced.begin(), balanced.end());
  metrics.set("global_seqlen/min", *low);
  metrics.set("global_seqlen/max", *high);
  metrics.set("global_seqlen/minmax_diff", *high - *low);
  metrics.set("global_seqlen/balanced_min", *even_low);
  metrics.set("global_seqlen/balanced_max", *even_high);
  metrics.set("global_seqlen/mean",
              std::accumulate(plain.begin(), plain.end(), 0.0) / static_cast<double>(dp));
}

/// |p_rollout - p_actor| over trainable tokens, and the correlation of the two.
void set_rollout_difference(std::span<const data::Trajectory> batch, const TokenValues& old,
                            Metrics& metrics) {
  std::vector<double> rollout, actor, difference;
  for (size_t s = 0; s < batch.size(); ++s) {
    if (batch[s].rollout_log_probs.empty()) return;
    for (size_t t = 0; t < old[s].size(); ++t) {
      if (batch[s].response_mask[t] == 0) continue;
      rollout.push_back(std::exp(batch[s].rollout_log_probs[t]));
      actor.push_back(std::exp(old[s][t]));
      difference.push_back(std::abs(rollout.back() - actor.back()));
    }
  }
  if (difference.size() < 2) return;
  const auto n = static_cast<double>(difference.size());
  const auto mean = [n](const std::vector<double>& x) {
    return std::accumulate(x.begin(), x.end(), 0.0) / n;
  };
  const double d = mean(difference), r = mean(rollout), a = mean(actor);
  double variance = 0, rr = 0, aa = 0, ra = 0;
  for (size_t i = 0; i < difference.size(); ++i) {
    variance += (difference[i] - d) * (difference[i] - d);
    rr += (rollout[i] - r) * (rollout[i] - r);
    aa += (actor[i] - a) * (actor[i] - a);
    ra += (rollout[i] - r) * (actor[i] - a);
  }
  metrics.set("training/rollout_probs_diff_valid", 1);
  metrics.set("training/rollout_probs_diff_max",
              *std::max_element(difference.begin(), difference.end()));
  metrics.set("training/rollout_probs_diff_mean", d);
  metrics.set("training/rollout_probs_diff_std", std::sqrt(variance / (n - 1)));
  if (rr > 0 && aa > 0) {
    metrics.set("training/rollout_actor_probs_pearson_corr", ra / std::sqrt(rr * aa));
  }
}

/// The update's metrics: the plain mean over mini-batches (verl), each taken over its own tokens.
void set_actor(const TrainConfig& config, const StepOutcome& outcome, Metrics& metrics) {
  const ActorConfig& actor = config.actor_rollout_ref.actor;
  const auto mean = [&](auto value) {
    double sum = 0;
    for (const MiniBatchResult& m : outcome.updates) sum += value(m);
    return sum / static_cast<double>(outcome.updates.size());
  };
  const auto per_token = [&](double algo::PolicyLossSums::*field) {
    return mean([&](const MiniBatchResult& m) {
      return m.sums.tokens > 0 ? m.sums.*field / m.sums.tokens : 0.0;
    });
  };
  const StepExperience& step = outcome.experience;
  metrics.set("actor/entropy", aggregate(config, step.experience.batch, step.entropy));
  metrics.set("actor/pg_loss", mean([](const auto& m) { return m.sums.pg_loss; }));
  metrics.set("actor/pg_clipfrac", per_token(&algo::PolicyLossSums::clipped));
  metrics.set("actor/pg_clipfrac_lower", per_token(&algo::PolicyLossSums::clipped_lower));
  metrics.set("actor/ppo_kl", per_token(&algo::PolicyLossSums::ppo_kl));
  if (actor.calculate_entropy || actor.entropy_coeff != 0) {
    metrics.set("actor/entropy_loss", mean([](const auto& m) { return m.sums.entropy_loss; }));
  }
  if (actor.use_kl_loss) {
    metrics.set("actor/kl_loss", mean([](const auto& m) { return m.sums.kl_loss; }));
    metrics.set("actor/kl_coef", actor.kl_loss_coef);
  }
  metrics.set("actor/loss", mean([](const auto& m) { return m.loss; }));
  metrics.set("actor/grad_norm", mean([](const auto& m) { return m.grad_norm; }));
  metrics.set("actor/lr", outcome.lr);
  if (config.algorithm.use_kl_in_reward) {
    metrics.set("actor/reward_kl_penalty", step.reward_kl);
    metrics.set("actor/reward_kl_penalty_coeff", step.reward_kl_coef);
  }
  metrics.set("actor/perf/max_memory_allocated_gb", static_cast<double>(outcome.peak_bytes) / kGiB);
  metrics.set("actor/perf/max_memory_reserved_gb",
              static_cast<double>(outcome.reserved_bytes) / kGiB);
  int64_t pages = 0, resident = 0;
  if (std::ifstream statm("/proc/self/statm"); statm >> pages >> resident) {
    metrics.set("actor/perf/cpu_memory_used_gb",
                static_cast<double>(resident * sysconf(_SC_PAGESIZE)) / kGiB);
  }
}

void set_timing(const TrainConfig& config, const StepOutcome& outcome, Metrics& metrics) {
  double tokens = 0, response_tokens = 0;
  for (const data::Trajectory& t : outcome.experience.experience.batch) {
    tokens += static_cast<double>(t.length());
    response_tokens += static_cast<double>(t.response_length());
  }
  for (const auto& [phase, seconds] : outcome.timer.seconds()) {
    metrics.set("timing_s/" + phase, seconds);
  }
  for (const char* phase : {"gen", "ref", "adv", "update_actor"}) {
    const auto found = outcome.timer.seconds().find(phase);
    if (found == outcome.timer.seconds().end()) continue;
    const double count = std::string(phase) == "gen" ? response_tokens : tokens;
    metrics.set(std::string("timing_per_token_ms/") + phase, found->second * 1000 / count);
  }
  const double seconds = outcome.timer.seconds().at("step");
  metrics.set("perf/total_num_tokens", tokens);
  metrics.set("perf/time_per_step", seconds);
  metrics.set("perf/throughput", tokens / seconds / static_cast<double>(config.world_size()));
}

}  // namespace

Metrics step_metrics(const TrainConfig& config, const StepOutcome& outcome) {
  Metrics metrics;
  metrics.set("training/global_step", static_cast<double>(outcome.step));
  metrics.set("training/epoch", static_cast<double>(outcome.epoch));
  set_actor(config, outcome, metrics);
  set_data(config, outcome.experience, metrics);
  set_reward_extras(outcome.experience, metrics);
  const Experience& experience = outcome.experience.experience;
  set_global_seqlen(config, experience.batch, metrics);
  set_rollout_difference(experience.batch, experience.old_log_prob, metrics);
  for (size_t cp = 1; cp < outcome.schedule.groups_by_cp.size(); ++cp) {
    if (outcome.schedule.groups_by_cp[cp] == 0) continue;
    metrics.set("schedule/groups_cp" + std::to_string(cp),
                static_cast<double>(outcome.schedule.groups_by_cp[cp]));
  }
  metrics.set("schedule/micro_batches", static_cast<double>(outcome.schedule.micro_batches));
  metrics.set("schedule/tokens", static_cast<double>(outcome.schedule.tokens));
  metrics.set("schedule/padded_tokens", static_cast<double>(outcome.schedule.padded_tokens));
  set_timing(config, outcome, metrics);
  return metrics;
}

}  // namespace verlcpp::train
