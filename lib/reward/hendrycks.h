#pragma once

#include <optional>

#include "reward/text.h"

namespace verlcpp::reward {

/// Which percent signs of an answer are dropped.
enum class PercentSigns {
  kEscaped,  // "\%": MATH
  kAll,      // "%" too: PRM800K's grader, which geometry3k uses
};

/// Hendrycks' normalisation of a MATH answer (verl: math_reward.strip_string): line breaks, \!,
/// \left, \right, degrees, \$, units after "\text{ ", percent and spaces go; dfrac and tfrac become
/// frac; ".5" becomes "0.5"; "x=5" becomes "5"; \sqrt3, \frac12 and 1/2 get their braces; 0.5
/// becomes \frac{1}{2}. Nothing where the original raises an exception: two units, or a \frac or
/// \sqrt with nothing behind it.
std::optional<Text> normalize_math(TextView answer, PercentSigns percent = PercentSigns::kEscaped);

}  // namespace verlcpp::reward
