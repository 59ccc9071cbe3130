#pragma once

#include "reward/text.h"

namespace verlcpp::reward {

/// PRM800K's grader, which verl takes from mathruler: equal after Hendrycks' normalisation, or
/// after its own (units, words for powers of ten, LaTeX), or part by part as tuples, where two
/// fractions, or an integer and anything else, must be the same text, and other expressions the
/// same value. There the original asks SymPy to simplify the difference to zero; here both are
/// evaluated (see same_value), so that an identity SymPy fails to prove counts as one.
bool grade_answer(TextView given, TextView ground_truth);

}  // namespace verlcpp::reward
