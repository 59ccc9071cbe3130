#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "data/prompts.h"
#include "reward/program.h"
#include "reward/rules.h"

namespace verlcpp::reward {

/// DAPO's soft penalty on long responses (verl: reward.reward_kwargs of the dapo manager): nothing
/// up to max_resp_len - len tokens, then linear, down to -penalty_factor at max_resp_len and below
/// it beyond.
struct OverlongBuffer {
  int64_t max_resp_len = 0;
  int64_t len = 1;  // of the buffer, positive
  double penalty_factor = 1;
  bool log = false;  // the extras overlong_reward and overlong
};

/// min(-(length - (max_resp_len - len)) / len * penalty_factor, 0).
double overlong_reward(const OverlongBuffer& buffer, int64_t response_length);

/// Of every conversation here: the prompt and the response to it (verl: num_turns).
inline constexpr int kTurns = 2;

enum class ManagerKind { kNaive, kDapo, kGdpo };

struct ManagerOptions {
  ManagerKind kind = ManagerKind::kNaive;
  std::optional<OverlongBuffer> overlong;  // of kDapo
  Gsm8kMethod gsm8k = Gsm8kMethod::kStrict;
  std::optional<ProgramOptions> program;  // instead of the rules
  std::string experiment_name;            // what kGdpo tells a program in extra_info
};

/// One response to score.
struct Sample {
  const data::PromptRow* row = nullptr;
  std::string response;         // without special tokens
  int64_t response_length = 0;  // in tokens
  std::string uid;
  int64_t number = 0;  // among the responses to the prompt
};

/// verl's reward managers of these names: the score of a rule or of the user's program, its extras,
/// and for dapo the penalty. A program sees extra_info as verl's managers hand it on: naive adds
/// num_turns and rollout_reward_scores, gdpo experiment_name.
class Manager {
 public:
  /// Starts the program, if any; see Program.
  Manager(ManagerOptions options, const std::function<void()>& beat);

  /// The rules' why_not_scored; "" where a program takes every data_source.
  std::string why_not_scored(const data::PromptRow& row, bool has_ground_truth = true) const;
  /// One reward a sample, in their order. `beat` is called while a program is waited for.
  std::vector<Reward> score(std::span<const Sample> samples, const std::function<void()>& beat);

  /// The program so far: responses that scored 0 because it failed, and how often it was started
  /// again. 0 without one.
  int64_t failures() const { return program_ ? program_->failures() : 0; }
  int64_t restarts() const { return program_ ? program_->restarts() : 0; }

 private:
  Question question(const Sample& sample) const;

  ManagerOptions options_;
  std::optional<Program> program_;
};

}  // namespace verlcpp::reward
