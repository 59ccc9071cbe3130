#pragma once

#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "algo/kl.h"
#include "rollout/generate.h"
#include "train/engine.h"
#include "train/inputs.h"
#include "train/update_pass.h"

namespace verlcpp::train {

/// Seconds spent in each phase of a step, under verl's timer names (gen, reward, old_log_prob, ref,
/// adv, update_actor, save_checkpoint, step, testing, dump_rollout_generations).
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

/// Sequences that a rank decodes at one time, at most: its share of a training step's. The memory
/// plan has room for no more, so a validation takes no more either.
int64_t rollout_slots(const TrainConfig& config);

/// One rollout: which prompts, how many responses to each, how they are made. Its spans are of
/// Inputs.
struct RolloutSpec {
  std::span<const data::PromptRow> rows;
  std::span<const std::vector<int32_t>> prompt_ids;  // of rows
  std::vector<int64_t> prompts;                      // indices of rows, in order
  std::vector<std::string> uids;                     // of prompts
  int64_t n = 1;                                     // responses to each
  rollout::GenerateOptions options;

  /// The prompt of response `i`, counted prompt-major.
  const data::PromptRow& row_of(size_t i) const {
    return rows[static_cast<size_t>(prompts[i / static_cast<size_t>(n)])];
  }
};
/// That of a training step (from 0); not for recorded trajectories.
RolloutSpec training_rollout(const TrainConfig& config, const Inputs& inputs, int64_t step);
/// The whole of inputs.validation after `step` steps, by rollout.val_kwargs. Its random numbers are
/// those of (rollout.seed, purpose validation; step, row, response, position).
RolloutSpec validation_rollout(const TrainConfig& config, const Inputs& inputs, int64_t step);

/// Responses in global order, prompt-major, generated on the pool and not yet scored. Nothing: the
/// ranks agreed to stop.
std::optional<std::vector<data::Trajectory>> generate_responses(
    const Engine& engine, const model::ParameterBuffer& weights, const RolloutSpec& spec);

/// 1. rollout. The step's trajectories in global order, prompt-major: generated
/// (generate_responses) or the recorded ones. Nothing: the ranks agreed to stop.
std::optional<std::vector<data::Trajectory>> rollout_batch(const Engine& engine,
                                                           const model::ParameterBuffer& weights,
                                                           const TrainConfig& config,
                                                           const Inputs& inputs, int64_t step);

/// Scores the responses to `spec`, with their extras. Called by all ranks: world rank 0 scores, by
/// rules or with the user's program, and the others get the same. Nothing where rank 0 was asked to
/// stop meanwhile. DataError on rank 0 when the program fails and
/// reward.custom_reward_function.on_failure is stop.
std::optional<ProgramStats> score_responses(const Engine& engine, const Inputs& inputs,
                                            const RolloutSpec& spec,
                                            std::vector<data::Trajectory>& batch);

/// 2. rewards of a step's generated responses (score_responses); recorded ones keep theirs.
std::optional<ProgramStats> score_batch(const Engine& engine, const TrainConfig& config,
                                        const Inputs& inputs, int64_t step,
                                        std::vector<data::Trajectory>& batch);

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
