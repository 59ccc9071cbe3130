#pragma once

#include <string>

#include "jinja/value.h"

// Python's operators on values. EvalError for types that do not go together, division by zero and
// integers beyond 64 bits.

namespace verlcpp::jinja {

/// `name`: + - * / // % **
Value binary_operation(const std::string& name, const Value& a, const Value& b);
/// `name`: + -
Value unary_operation(const std::string& name, const Value& a);
/// `name`: == != < <= > >= in, not in
bool comparison_holds(const std::string& name, const Value& a, const Value& b);

/// value.name: a method or attribute, or else an item of that name; undefined without either.
Value get_attribute(const Value& value, const std::string& name);
/// value[key]: an item, or else an attribute of that name; undefined without either.
Value get_item(const Value& value, const Value& key);
/// value[start:stop:step], none for a part that is left out.
Value get_slice(const Value& value, const Value& start, const Value& stop, const Value& step);

Value call_value(const Value& function, Args args);

/// The method of str called `name`, bound to the string `text`; nothing if there is none. A method
/// of escaped text yields escaped text.
std::optional<Value> string_method(const Value& text, const std::string& name);
/// text % value. `escapes`: what is put in is escaped.
std::string percent_format(const std::string& text, const Value& value, bool escapes);
/// text.format(...).
std::string brace_format(const std::string& text, const Args& args, bool escapes);

}  // namespace verlcpp::jinja
