#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "algo/kl.h"
#include "train/engine.h"
#include "train/inputs.h"
#include "train/update_pass.h"

namespace verlcpp::train {

/// Seconds spent in each phase of a step, under verl's timer names (gen, reward, old_log_prob, ref,
/// adv, update_actor, save_checkpoint, step).
class PhaseTimer {
 public:
  PhaseTimer() = default;
  /// Phases are entered in `status` as well.
  explicit PhaseTimer(parallel::RankStatus& status) : status_(&status) {}
  /// Runs `body` and adds its wall time to `phase`, a string literal.
  void time(const char* phase, const std::function<void()>& body);
  const std::map<std::string, double>& seconds() const { return seconds_; }

 private:
  parallel::RankStatus* status_ = nullptr;
  std::map<std::string, double> seconds_;
};

/// What the user's reward program did in this step.
struct ProgramStats {
  int64_t failures = 0;  // responses it could not score, which count as 0
  int64_t restarts = 0;
};

/// A step's experience with what the metrics need besides.
struct StepExperience {
  Experience experience;
  TokenValues entropy;        // of the actor before the update
  TokenValues token_rewards;  // token-level rewards: score on the last token, less KL in reward
  double reward_kl = 0;       // mean over sequences of the masked mean KL (use_kl_in_reward)
  double reward_kl_coef = 0;  // beta that was applied
  std::optional<ProgramStats> program;  // of a run with a reward program
};

/// The rows of inputs.rows that a step takes.
std::vector<int64_t> step_rows(const TrainConfig& config, const Inputs& inputs, int64_t step);

/// 1. rollout. The step's trajectories in global order, prompt-major: generated on the pool, or the
/// recorded ones. Nothing: the ranks agreed to stop.
std::optional<std::vector<data::Trajectory>> rollout_batch(const Engine& engine,
                                                           const model::ParameterBuffer& weights,
                                                           const TrainConfig& config,
                                                           const Inputs& inputs, int64_t step);

/// 2. rewards of generated responses (recorded ones keep theirs), with their extras. Called by all
/// ranks: world rank 0 scores, by rules or with the user's program, and the others get the same.
/// DataError on rank 0 when the program fails and reward.custom_reward_function.on_failure is stop.
ProgramStats score_batch(const Engine& engine, const TrainConfig& config, const Inputs& inputs,
                         int64_t step, std::vector<data::Trajectory>& batch);

/// The planner of each pass.
using PlannerOf = std::function<Planner(Pass)>;

/// 3. old log-probs, 4. reference log-probs (`reference` may be null), 5. KL in reward and
/// advantages; verl's order. Updates the KL controller. Nothing, and the
/// controller as it was: the ranks agreed to stop (a stop point before each pass and before 5).
/// Without `planner_of` the configuration says how each pass cuts its samples.
std::optional<StepExperience> make_experience(const Engine& engine,
                                              const model::ParameterBuffer& actor,
                                              const model::ParameterBuffer* reference,
                                              const TrainConfig& config,
                                              std::vector<data::Trajectory> batch,
                                              algo::KlController& kl, PhaseTimer& timer,
                                              const PlannerOf& planner_of = {});

/// verl's agg_loss over a whole batch of token values.
double aggregate(const TrainConfig& config, std::span<const data::Trajectory> batch,
                 const TokenValues& values);

}  // namespace verlcpp::train
