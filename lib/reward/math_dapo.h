#pragma once

#include <string>
#include <string_view>

namespace verlcpp::reward {

struct DapoScore {
  double score = -1;  // +1 or -1
  bool acc = false;
  std::string pred;  // the answer that was found, normalised; "[INVALID]" for none
};

/// verl's math_dapo.compute_score on the last 300 characters: what follows the last "Answer:" (any
/// case) on its line, against the ground truth, both normalised (the part after the last "=",
/// filler words, units and LaTeX wrappers dropped, \frac and \sqrt given braces). Without such a
/// line the last \boxed{...} that begins in the last 100 characters, which must equal the ground
/// truth letter for letter; that content is then `pred`.
DapoScore score_math_dapo(std::string_view response, std::string_view ground_truth);

}  // namespace verlcpp::reward
