#pragma once

#include <optional>

#include "reward/text.h"

namespace verlcpp::reward {

/// A LaTeX answer as the expression PRM800K's grader makes of it with pylatexenc: \frac{1}{2} is
/// " 1/2", \sqrt{3} is "sqrt(3)", \pi is "pi", \text{cm} is "cm", \cdot and \times are "*". A
/// command that is not known gives nothing, braces go. Nothing where the original raises, and for
/// environments, which are not read here.
std::optional<Text> latex_as_expression(TextView latex);

}  // namespace verlcpp::reward
