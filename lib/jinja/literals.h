#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace verlcpp::jinja {

/// The value of what stands between a string literal's quotes: Python's escapes, an unknown one
/// staying as it is. SyntaxError for a cut-off \x, \u or \U.
std::string unescaped(std::string_view text, int line);

struct Number {
  size_t length = 0;  // characters read
  bool is_float = false;
  int64_t integer = 0;
  double number = 0;
};
/// The number that `text` begins with: 12, 1_000, 0x1f, 1.5, 2e3. SyntaxError for an integer of
/// more than 64 bits.
Number read_number(std::string_view text, bool may_be_float, int line);

}  // namespace verlcpp::jinja
