#include "train/progress.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>
#include <vector>

#include "base/error.h"

namespace verlcpp::train {
namespace {

std::string minutes(double seconds) {
  const auto whole = static_cast<int64_t>(seconds);
  return fmt::format("{:02}:{:02}", whole / 60, whole % 60);
}

}  // namespace

std::string progress_bar(int64_t done, int64_t total, double seconds, int64_t done_at_start) {
  constexpr int kWidth = 20;
  const double share =
      total > 0 ? std::min(1.0, static_cast<double>(done) / static_cast<double>(total)) : 1;
  const auto filled = static_cast<size_t>(share * kWidth);
  const int64_t run = done - done_at_start;
  const double left =
      run > 0 ? seconds / static_cast<double>(run) * static_cast<double>(total - done) : 0;
  return fmt::format("Training Progress: {:3.0f}%|{}{}| {}/{} [{}<{}]", share * 100,
                     std::string(filled, '#'), std::string(kWidth - filled, ' '), done, total,
                     minutes(seconds), minutes(left));
}

std::string ascii_plot(std::span<const double> values, int width, int height) {
  if (values.empty()) return "";
  expects(width > 0 && height > 0, "a plot has columns and rows");
  const size_t columns = std::min(values.size(), static_cast<size_t>(width));
  std::vector<double> column;
  for (size_t c = 0; c < columns; ++c) {
    const size_t first = c * values.size() / columns, last = (c + 1) * values.size() / columns;
    const auto share = values.subspan(first, last - first);
    column.push_back(std::accumulate(share.begin(), share.end(), 0.0) /
                     static_cast<double>(share.size()));
  }
  std::vector<double> finite;
  std::copy_if(column.begin(), column.end(), std::back_inserter(finite),
               [](double v) { return std::isfinite(v); });
  if (finite.empty()) return "";
  const auto [low, high] = std::minmax_element(finite.begin(), finite.end());
  const double range = std::max(*high - *low, 1e-12);
  std::string text;
  for (int row = height - 1; row >= 0; --row) {
    if (row == height - 1) {
      text += fmt::format("{:8.3f} |", *high);
    } else if (row == 0) {
      text += fmt::format("{:8.3f} |", *low);
    } else {
      text += "         |";
    }
    for (double v : column) {
      if (!std::isfinite(v)) {
        text += ' ';
        continue;
      }
      const int level = std::min(height - 1, static_cast<int>((v - *low) / range * height));
      text += level == row ? '*' : (level > row ? '.' : ' ');
    }
    text += '\n';
  }
  return text + "         +" + std::string(columns, '-') + '\n';
}

}  // namespace verlcpp::train
