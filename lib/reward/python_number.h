#pragma once

#include <optional>

#include "reward/text.h"

namespace verlcpp::reward {

/// Python's float(text); nothing where it raises.
std::optional<double> python_float(TextView text);
/// Finite and within 1e-7 of an integer.
bool is_near_integer(double value);
enum class Rounding { kNearest, kToZero };
/// str(int(value)) or str(int(round(value))), all digits of it.
Text integer_text(double value, Rounding rounding);

}  // namespace verlcpp::reward
