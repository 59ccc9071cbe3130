#pragma once

#include <span>
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
/// check_data_sources says so first.
Reward compute_score(const data::PromptRow& row, std::string_view response,
                     Gsm8kMethod gsm8k = Gsm8kMethod::kStrict);

/// Throws one DataError naming every data_source without a scorer, every ground truth its scorer
/// cannot use, and the first row of each. Called when the rows are loaded, before any weight is.
void check_data_sources(std::span<const data::PromptRow> rows);

}  // namespace verlcpp::reward
