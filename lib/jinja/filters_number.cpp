// int, float, abs, round, sum.

#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "jinja/filters.h"
#include "jinja/operators.h"
#include "jinja/unicode.h"

namespace verlcpp::jinja {
namespace {

/// Digits with single underscores between them, which Python takes; empty if there is anything odd.
std::string plain_digits(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '_') {
      out += text[i];
      continue;
    }
    const bool inside = i > 0 && i + 1 < text.size() && text[i - 1] != '_';
    if (!inside) return "";
  }
  return out;
}

std::optional<int64_t> parse_integer(const std::string& text, int base) {
  std::string digits = plain_digits(strip_space(text, true, true));
  const bool negative = digits.starts_with("-");
  if (negative || digits.starts_with("+")) digits.erase(0, 1);
  const std::string head = to_lower(digits.substr(0, 2));
  const bool prefixed =
      (base == 16 && head == "0x") || (base == 8 && head == "0o") || (base == 2 && head == "0b");
  if (prefixed) digits.erase(0, 2);
  if (digits.empty() || digits[0] == '-') return std::nullopt;
  int64_t out = 0;
  const char* end = digits.data() + digits.size();
  const auto read = std::from_chars(digits.data(), end, out, base);
  if (read.ptr != end) return std::nullopt;
  if (read.ec != std::errc()) throw EvalError("an integer exceeds 64 bits");
  return negative ? -out : out;
}

std::optional<double> parse_float(const std::string& text) {
  const std::string number = plain_digits(strip_space(text, true, true));
  const std::string lower = to_lower(number);
  const bool word = lower.find("inf") != std::string::npos || lower == "nan" || lower == "-nan" ||
                    lower == "+nan";
  // What strtod reads beyond Python's float(): hexadecimal, nan(...).
  if (number.empty() || (!word && lower.find_first_not_of("0123456789.e+-") != std::string::npos)) {
    return std::nullopt;
  }
  char* end = nullptr;
  const double out = std::strtod(number.c_str(), &end);
  if (end != number.c_str() + number.size()) return std::nullopt;
  return out;
}

std::optional<int64_t> truncated(double value) {
  if (std::isnan(value) || std::isinf(value)) return std::nullopt;
  if (std::fabs(value) >= 9.2e18) throw EvalError("an integer exceeds 64 bits");
  return static_cast<int64_t>(value);
}

Value to_int(const Value& value, Parameters& p) {
  Value otherwise = p.take("default", 0);
  const int64_t base = p.take_integer("base", 10);
  p.finish();
  expect_defined(value);
  if (base < 2 || base > 36) p.fail("takes a base from 2 to 36");
  std::optional<int64_t> out = value.integer();
  if (const auto* number = value.get_if<double>()) {
    out = truncated(*number);
    if (!out && std::isinf(*number)) throw EvalError("cannot convert float infinity to integer");
  } else if (const auto* text = value.text()) {
    out = parse_integer(*text, static_cast<int>(base));
    if (!out) {
      const auto read = parse_float(*text);
      if (read) out = truncated(*read);
    }
  }
  return out ? Value(*out) : otherwise;
}

Value to_float(const Value& value, Parameters& p) {
  Value otherwise = p.take("default", 0.0);
  p.finish();
  expect_defined(value);
  std::optional<double> out = value.number();
  if (value.text() != nullptr) out = parse_float(*value.text());
  return out ? Value(*out) : otherwise;
}

Value absolute(const Value& value, Parameters& p) {
  p.finish();
  expect_defined(value);
  if (value.is_bool()) return *value.integer();
  if (const auto i = value.integer()) return *i < 0 ? unary_operation("-", value) : value;
  if (const auto d = value.number()) return std::fabs(*d);
  p.fail("takes a number, not " + type_name(value));
}

/// Python's round(): to the nearest decimal, exactly halfway cases to the even digit.
double rounded(double value, int64_t precision) {
  if (std::isnan(value) || std::isinf(value) || precision > 300) return value;
  if (precision >= 0) {
    char buffer[700];
    std::snprintf(buffer, sizeof buffer, "%.*f", static_cast<int>(precision), value);
    return std::strtod(buffer, nullptr);
  }
  const double unit = std::pow(10.0, static_cast<double>(-precision));
  return std::nearbyint(value / unit) * unit;
}

int64_t rounded(int64_t value, int64_t precision) {
  if (precision >= 0) return value;
  int64_t unit = 1;
  for (int64_t i = 0; i < -precision; ++i) {
    if (unit > INT64_MAX / 10) return 0;
    unit *= 10;
  }
  const int64_t rest = ((value % unit) + unit) % unit, below = value - rest;
  const bool up = rest * 2 > unit || (rest * 2 == unit && (below / unit) % 2 != 0);
  return up ? below + unit : below;
}

Value round(const Value& value, Parameters& p) {
  const int64_t precision = p.take_integer("precision", 0);
  const std::string method = p.take_text("method", "common");
  p.finish();
  expect_defined(value);
  if (!value.number()) p.fail("takes a number, not " + type_name(value));
  if (method == "common") {
    if (const auto i = value.integer()) return rounded(*i, precision);
    return rounded(*value.number(), precision);
  }
  if (method != "ceil" && method != "floor") p.fail("takes common, ceil or floor as 'method'");
  const double unit = std::pow(10.0, static_cast<double>(precision));
  const double scaled = *value.number() * unit;
  if (!std::isfinite(scaled)) p.fail("takes a finite number for 'method'");
  // Python's ceil and floor give an integer, which has no negative zero.
  return ((method == "ceil" ? std::ceil(scaled) : std::floor(scaled)) + 0.0) / unit;
}

Value sum(const Value& value, Parameters& p) {
  const Value attribute = p.take("attribute", None{});
  Value total = p.take("start", 0);
  p.finish();
  if (total.text() != nullptr) p.fail("cannot sum strings; use join");
  for (const Value& item : iterate(value)) {
    total = binary_operation("+", total, attribute_of(item, attribute));
  }
  return total;
}

}  // namespace

void add_number_filters(FilterTable& table) {
  table["int"] = to_int;
  table["float"] = to_float;
  table["abs"] = absolute;
  table["round"] = round;
  table["sum"] = sum;
}

}  // namespace verlcpp::jinja
