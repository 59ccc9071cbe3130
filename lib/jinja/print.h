#pragma once

#include <string>

#include "jinja/value.h"

namespace verlcpp::jinja {

/// Python's str(): what {{ }} prints.
std::string to_text(const Value& value);
/// Python's repr().
std::string to_repr(const Value& value);
/// Python's repr of a float: the fewest digits that read back the same.
std::string float_text(double value);

/// At least `digits` lower case hexadecimal digits.
std::string hex_text(uint32_t number, int digits);

/// The arguments of json.dumps that templates reach through tojson.
struct JsonStyle {
  bool ensure_ascii = false;
  std::optional<std::string> indent;  // what a level is moved in by
  std::string item_separator = ", ", key_separator = ": ";
  bool sort_keys = false;
};
/// json.dumps(value); EvalError for what it cannot serialise.
std::string to_json(const Value& value, const JsonStyle& style);

}  // namespace verlcpp::jinja
