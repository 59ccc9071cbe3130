#pragma once

#include <string_view>

namespace verlcpp::reward {

/// The quickstart's task: walk round the cycle a b c d a ..., from the prompt's last letter on, for
/// a length within a range. `ground_truth` is "LETTER LOW HIGH". The score is the number of right
/// steps (each character the successor of the one before it) among the first HIGH characters, over
/// the larger of the response's length and LOW: partial credit in [0, 1] for every right step.
double score_cycle(std::string_view response, std::string_view ground_truth);

/// Whether it is LETTER LOW HIGH with a letter of the cycle and 1 <= LOW <= HIGH.
bool is_cycle_truth(std::string_view ground_truth);

}  // namespace verlcpp::reward
