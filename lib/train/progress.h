#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace verlcpp::train {

/// "Training Progress:  40%|########            | 80/200 [00:12<00:18]".
std::string progress_bar(int64_t done, int64_t total, double seconds, int64_t done_at_start);

/// A small plot of a series for a terminal: `height` rows of `width` columns, each column the mean
/// of its share of the series, with the largest and smallest value on the left. A column
/// without a finite mean stays empty; "" for no finite values.
std::string ascii_plot(std::span<const double> values, int width, int height);

}  // namespace verlcpp::train
