#pragma once

#include <string_view>

namespace verlcpp::reward {

/// How gsm8k finds the answer: verl's two methods.
enum class Gsm8kMethod {
  kStrict,    // the last "#### " followed by a number; commas in it are dropped
  kFlexible,  // the last number of all, commas included; one that is "." alone is passed over
};

/// verl's gsm8k.compute_score: the answer in the last 300 characters, where a number is an optional
/// minus, then digits, dots and commas; 1 if it equals the ground truth letter for letter, else 0.
double score_gsm8k(std::string_view response, std::string_view ground_truth,
                   Gsm8kMethod method = Gsm8kMethod::kStrict);

}  // namespace verlcpp::reward
