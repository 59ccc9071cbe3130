#pragma once

#include <string>

#include "train/compare_result.h"

namespace verlcpp::train {

/// The measured quantities, one a line, and one column an arm: aligned text.
std::string compare_table(const Comparison& comparison);

/// What the arms should take on other numbers of GPUs, with the speed relative to the first arm.
std::string predicted_table(const Comparison& comparison);

}  // namespace verlcpp::train
