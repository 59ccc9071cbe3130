#include "config/casts.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "config/python_text.h"
#include "config/value_parser.h"

namespace verlcpp::config {

namespace {

[[noreturn]] void fail(const std::string& message) { throw GrammarError{message, 0}; }

[[noreturn]] void fail_cast(const Node& value, const std::string& to) {
  fail(to + "() cannot convert " + to_inline(value));
}

/// A string, or the text of an interpolation, which nobody has resolved yet.
std::optional<std::string> text_of(const Node& value) {
  if (const auto* text = value.get_if<std::string>()) return *text;
  if (const auto* text = value.get_if<Interpolation>()) return text->text;
  return std::nullopt;
}

std::string lowered(std::string text) {
  for (char& c : text) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return text;
}

Scalar to_int(const Node& value) {
  if (const auto* held = value.get_if<int64_t>()) return *held;
  if (const auto* held = value.get_if<bool>()) return int64_t{*held ? 1 : 0};
  if (const auto* held = value.get_if<double>()) {
    constexpr double kLimit = 9223372036854775808.0;  // 2^63
    if (!(std::abs(*held) < kLimit)) fail_cast(value, "int");
    return static_cast<int64_t>(*held);
  }
  const auto text = text_of(value);
  const auto number = text ? python_int(*text) : std::nullopt;
  if (!number) fail_cast(value, "int");
  return *number;
}

Scalar to_float(const Node& value) {
  if (const auto* held = value.get_if<int64_t>()) return static_cast<double>(*held);
  if (const auto* held = value.get_if<bool>()) return *held ? 1.0 : 0.0;
  if (const auto* held = value.get_if<double>()) return *held;
  const auto text = text_of(value);
  const auto number = text ? python_float(*text) : std::nullopt;
  if (!number) fail_cast(value, "float");
  return *number;
}

Scalar to_string(const Node& value) {
  if (const auto* text = value.get_if<std::string>()) return *text;
  if (const auto* text = value.get_if<Interpolation>()) return *text;
  if (const auto* held = value.get_if<bool>()) return std::string(*held ? "true" : "false");
  if (value.is_null()) fail_cast(value, "str");
  return to_inline(value);
}

Scalar to_bool(const Node& value) {
  if (const auto* held = value.get_if<bool>()) return *held;
  if (const auto* held = value.get_if<int64_t>()) return *held != 0;
  if (const auto* held = value.get_if<double>()) return *held != 0;
  if (value.is_null()) return false;
  const std::string text = lowered(*text_of(value));
  if (text != "true" && text != "false") fail_cast(value, "bool");
  return text == "true";
}

/// Every scalar of a list or a map, converted.
Node cast(const Node& value, Scalar (*convert)(const Node&)) {
  if (value.is_list()) {
    List items;
    for (const Node& element : value.elements()) items.push_back(cast(element, convert));
    return Node::list(std::move(items), value.origin());
  }
  if (value.is_map()) {
    Map items;
    for (const auto& [name, child] : value.items()) items.emplace_back(name, cast(child, convert));
    return Node::map(std::move(items), value.origin());
  }
  return Node(convert(value), value.origin());
}

/// The one argument, or the last of several `value=`.
const Node& only_argument(const Call& call) {
  if (call.arguments.empty()) fail(call.name + "() needs a value");
  for (const Argument& argument : call.arguments) {
    if (!argument.name.empty() && argument.name != "value") {
      fail(call.name + "() has no argument " + argument.name);
    }
  }
  const Argument& last = call.arguments.back();
  if (call.arguments.size() > 1 && call.arguments[0].name.empty()) {
    fail(last.name.empty() ? call.name + "() of several values is a sweep; write them as a list"
                           : call.name + "() takes one value");
  }
  if (last.name == "value" && last.value.is_null()) fail(call.name + "() needs a value");
  return last.value;
}

std::optional<double> number_of(const Node& value) {
  if (const auto* held = value.get_if<bool>()) return *held ? 1 : 0;
  if (const auto* held = value.get_if<int64_t>()) return static_cast<double>(*held);
  if (const auto* held = value.get_if<double>()) return *held;
  return std::nullopt;
}

bool less(const Node& a, const Node& b) {
  const auto x = text_of(a), y = text_of(b);
  if (x && y) return *x < *y;
  const auto *m = a.get_if<int64_t>(), *n = b.get_if<int64_t>();
  if (m != nullptr && n != nullptr) return *m < *n;
  return *number_of(a) < *number_of(b);
}

Node sorted(const Node& list, bool reverse) {
  List items = list.elements();
  if (items.size() < 2) return list;
  const auto is_text = [](const Node& item) { return text_of(item).has_value(); };
  // std::stable_sort needs an order, which nan has not.
  const auto is_number = [](const Node& item) {
    const auto number = number_of(item);
    return number && !std::isnan(*number);
  };
  if (!std::all_of(items.begin(), items.end(), is_text) &&
      !std::all_of(items.begin(), items.end(), is_number)) {
    fail("sort() takes numbers or strings, not " + to_inline(list));
  }
  // Equal ones keep their order, also in reverse.
  std::stable_sort(items.begin(), items.end(),
                   [&](const Node& a, const Node& b) { return reverse ? less(b, a) : less(a, b); });
  return Node::list(std::move(items), list.origin());
}

Node sort(const Call& call) {
  const Node* value = nullptr;
  bool reverse = false;
  for (const Argument& argument : call.arguments) {
    if (argument.name == "reverse") {
      const auto* held = argument.value.get_if<bool>();
      if (held == nullptr) fail("reverse is true or false, not " + to_inline(argument.value));
      reverse = *held;
    } else if (argument.name.empty() || argument.name == "list") {
      if (value != nullptr) fail("sort() of several values is a sweep; write them as a list");
      if (!argument.name.empty() && !argument.value.is_list()) fail("list is a list");
      value = &argument.value;
    } else {
      fail("sort() has no argument " + argument.name);
    }
  }
  if (value == nullptr || value->is_null()) fail("sort() needs a list");
  return value->is_list() ? sorted(*value, reverse) : *value;
}

}  // namespace

Node evaluate(const Call& call) {
  if (call.name == "int") return cast(only_argument(call), to_int);
  if (call.name == "float") return cast(only_argument(call), to_float);
  if (call.name == "str") return cast(only_argument(call), to_string);
  if (call.name == "bool") return cast(only_argument(call), to_bool);
  if (call.name == "sort") return sort(call);
  for (const char* name : {"choice", "range", "interval", "glob", "tag", "shuffle"}) {
    if (call.name == name) fail(call.name + "() is for sweeps, and this is one value");
  }
  fail("unknown function " + call.name +
       "; there are int, float, str, bool and sort; quote a text with brackets");
}

}  // namespace verlcpp::config
