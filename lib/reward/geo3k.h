#pragma once

#include <string_view>

namespace verlcpp::reward {

/// verl's geo3k.compute_score: 0.9 if the content of the last \boxed{...} is graded equal to the
/// ground truth (grade_answer), plus 0.1 if the response is <think>...</think>...\boxed{...}...
double score_geo3k(std::string_view response, std::string_view ground_truth);

}  // namespace verlcpp::reward
