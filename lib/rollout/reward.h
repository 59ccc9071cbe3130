#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/prompts.h"

namespace verlcpp::rollout {

/// The rule scorers by data_source, as verl's default_compute_score: openai/gsm8k and the
/// quickstart's verlcpp/cycle. DataError for any other source; check_data_sources says so first.
double compute_score(const std::string& data_source, const std::string& response_text,
                     const std::string& ground_truth);

/// Throws one DataError naming every data_source without a scorer, every ground truth its scorer
/// cannot use, and the first row of each. Called when the rows are loaded, before any weight is.
void check_data_sources(std::span<const data::PromptRow> rows);

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
