#pragma once

#include <string>
#include <string_view>

#include "data/prompts.h"
#include "data/trajectory.h"
#include "reward/gsm8k.h"

namespace verlcpp::reward {

/// What a scorer says of one response: the score, and verl's reward_extra_info.
struct Reward {
  double score = 0;
  std::vector<data::RewardExtra> extras;
};

/// The rule scorers by data_source, as verl's default_compute_score: openai/gsm8k; lighteval/MATH,
/// DigitalLearningGmbH/MATH-lighteval and HuggingFaceH4/MATH-500; math_dapo, math,
/// math_dapo_reasoning and every source that begins with aime; hiyouga/geometry3k; searchR1_*; and
/// the quickstart's verlcpp/cycle. A scorer that says no more than a number has the extra "acc",
/// the others the fields of their result (verl's naive manager). DataError for any other source;
/// why_not_scored says so first.
Reward compute_score(const data::PromptRow& row, std::string_view response,
                     Gsm8kMethod gsm8k = Gsm8kMethod::kStrict);

/// Why a response to `row` cannot be scored: no scorer has its data_source, or its ground truth is
/// not one that the scorer can use; what would be valid. "" when it can. Without a ground truth
/// only the data_source is judged.
std::string why_not_scored(const data::PromptRow& row, bool has_ground_truth = true);

}  // namespace verlcpp::reward
