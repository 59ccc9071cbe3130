#pragma once

#include <string>
#include <string_view>

#include "data/prompts.h"

namespace verlcpp::rollout {

/// The rule scorers by data_source, as verl's default_compute_score: openai/gsm8k and the
/// quickstart's verlcpp/cycle. DataError for any other source; why_not_scored says so first.
double compute_score(const std::string& data_source, const std::string& response_text,
                     const std::string& ground_truth);

/// Why a response to `row` cannot be scored: no scorer has its data_source, or its ground truth is
/// not one that the scorer can use; what would be valid. "" when it can. Without a ground truth
/// only the data_source is judged.
std::string why_not_scored(const data::PromptRow& row, bool has_ground_truth = true);

/// verl's strict GSM8K rule: in the last 300 characters, the last "#### " followed by a number
/// (an optional minus, then digits, dots and commas); 1 if it equals the ground truth letter for
/// letter once commas are dropped, else 0.
double score_gsm8k(std::string_view response, std::string_view ground_truth);

/// The quickstart's task: walk round the cycle a b c d a ..., from the prompt's last letter on, for
/// a length within a range. `ground_truth` is "LETTER LOW HIGH". The score is the number of right
/// steps (each character the successor of the one before it) among the first HIGH characters, over
/// the larger of the response's length and LOW: partial credit in [0, 1] for every right step.
double score_cycle(std::string_view response, std::string_view ground_truth);

}  // namespace verlcpp::rollout
