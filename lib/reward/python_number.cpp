#include "reward/python_number.h"

#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <limits>

namespace verlcpp::reward {
namespace {

/// Without underscores; nothing when one of them is not between two digits.
std::optional<Text> without_underscores(TextView text) {
  Text out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != U'_') {
      out += text[i];
      continue;
    }
    const auto digit = [&](size_t at) {
      return at < text.size() && text[at] >= U'0' && text[at] <= U'9';
    };
    if (i == 0 || !digit(i - 1) || !digit(i + 1)) return {};
  }
  return out;
}

}  // namespace

std::optional<double> python_float(TextView text) {
  const auto plain = without_underscores(strip(text));
  if (!plain || plain->empty()) return {};
  std::string digits = to_utf8(lower(*plain));
  const bool negative = digits[0] == '-';
  if (negative || digits[0] == '+') digits.erase(0, 1);
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (digits == "inf" || digits == "infinity") return negative ? -kInfinity : kInfinity;
  if (digits == "nan") return std::numeric_limits<double>::quiet_NaN();
  if (digits.empty() || (digits[0] != '.' && (digits[0] < '0' || digits[0] > '9'))) return {};
  double value = 0;
  const char* end = digits.data() + digits.size();
  const auto [stop, error] = std::from_chars(digits.data(), end, value);
  if (stop != end || error == std::errc::invalid_argument) return {};
  if (error == std::errc::result_out_of_range) {
    // Too large or too small; the sign of the exponent tells.
    const bool small = digits.find("e-") != std::string::npos;
    value = small ? 0.0 : kInfinity;
  }
  return negative ? -value : value;
}

bool is_near_integer(double value) {
  return std::isfinite(value) && std::abs(value - std::nearbyint(value)) <= 1e-7;
}

Text integer_text(double value, Rounding rounding) {
  const double whole = rounding == Rounding::kNearest ? std::nearbyint(value) : std::trunc(value);
  std::array<char, 400> digits{};
  std::snprintf(digits.data(), digits.size(), "%.0f", whole == 0 ? 0.0 : whole);
  return to_text(digits.data());
}

}  // namespace verlcpp::reward
