#pragma once

#include "reward/text.h"

namespace verlcpp::reward {

/// Whether two expressions have the same value: numbers, + - * / ^, brackets, sqrt, pi, ln, log and
/// letters as unknowns, side by side for a product. Both are evaluated, with several values for
/// each unknown; equal means within 1e-11, relative. False for what cannot be read or has no value.
bool same_value(TextView a, TextView b);

}  // namespace verlcpp::reward
