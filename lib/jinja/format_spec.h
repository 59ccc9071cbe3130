#pragma once

#include <string>
#include <string_view>

#include "jinja/value.h"

namespace verlcpp::jinja {

/// How one value is laid out: Python's format specification, which % conversions map to.
struct FormatSpec {
  std::string fill = " ";
  char align = 0;  // < > ^ =, 0: the type's own
  char sign = '-';
  bool alternate = false;  // 0x in front of hexadecimal digits
  int64_t width = 0;
  char group = 0;  // , or _ between thousands
  int64_t precision = -1;
  char type = 0;
};

/// "[[fill]align][sign][#][0][width][group][.precision][type]"; EvalError for anything else.
FormatSpec parse_format_spec(std::string_view text);
/// format(value, spec) for a number or a string; EvalError for anything else.
std::string apply_format_spec(const Value& value, const FormatSpec& spec);

}  // namespace verlcpp::jinja
