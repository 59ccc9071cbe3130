#pragma once

#include <string_view>

namespace verlcpp::reward {

/// verl's math_reward.compute_score: 1 if the content of the last \boxed{...} (or what follows the
/// last "\boxed " up to a $) and the ground truth are the same after normalize_math, else 0. Where
/// one of them cannot be normalised they are compared as they are. A response with \fbox alone is
/// searched, and as in verl scores 0.
double score_math(std::string_view response, std::string_view ground_truth);

}  // namespace verlcpp::reward
