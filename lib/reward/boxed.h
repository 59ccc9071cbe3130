#pragma once

#include <optional>

#include "reward/text.h"

namespace verlcpp::reward {

/// From `start` on up to the brace that closes the first one that is open, as verl and Hendrycks'
/// MATH code count braces; nothing when none does.
std::optional<Text> closed_braces(TextView text, size_t start);

/// The content of a whole "\boxed{...}"; nothing for any other text.
std::optional<Text> boxed_content(TextView boxed);

}  // namespace verlcpp::reward
