#include "jinja/operators.h"

#include <cmath>

namespace verlcpp::jinja {
namespace {

[[noreturn]] void unsupported(const std::string& name, const Value& a, const Value& b) {
  throw EvalError("unsupported operand type(s) for " + name + ": '" + type_name(a) + "' and '" +
                  type_name(b) + "'");
}

void check(bool overflow) {
  if (overflow) throw EvalError("an integer exceeds 64 bits");
}

int64_t floor_divide(int64_t a, int64_t b) {
  check(a == INT64_MIN && b == -1);
  return a / b - ((a % b != 0 && (a < 0) != (b < 0)) ? 1 : 0);
}

Value power(int64_t base, int64_t exponent) {
  if (exponent < 0) {
    if (base == 0) throw EvalError("0 cannot be raised to a negative power");
    return std::pow(static_cast<double>(base), static_cast<double>(exponent));
  }
  int64_t out = 1;
  for (int64_t i = 0; i < exponent; ++i) {
    if (base == 0 || base == 1) return base;
    if (base == -1) return exponent % 2 == 0 ? 1 : -1;
    check(__builtin_mul_overflow(out, base, &out));
  }
  return out;
}

Value integer_operation(const std::string& name, int64_t a, int64_t b) {
  int64_t out = 0;
  if (name == "+") {
    check(__builtin_add_overflow(a, b, &out));
  } else if (name == "-") {
    check(__builtin_sub_overflow(a, b, &out));
  } else if (name == "*") {
    check(__builtin_mul_overflow(a, b, &out));
  } else if (name == "**") {
    return power(a, b);
  } else if (b == 0) {
    throw EvalError("division by zero");
  } else if (name == "/") {
    return static_cast<double>(a) / static_cast<double>(b);
  } else if (name == "//") {
    out = floor_divide(a, b);
  } else {
    out = b == -1 ? 0 : a - floor_divide(a, b) * b;
  }
  return out;
}

Value float_operation(const std::string& name, double a, double b) {
  if (name == "+") return a + b;
  if (name == "-") return a - b;
  if (name == "*") return a * b;
  if (name == "**") {
    if (a < 0 && b != std::floor(b)) throw EvalError("a power that is a complex number");
    return std::pow(a, b);
  }
  if (b == 0) throw EvalError("float division by zero");
  if (name == "/") return a / b;
  // As CPython does it, rounding included.
  double rest = std::fmod(a, b), whole = (a - rest) / b;
  if (rest == 0) {
    rest = std::copysign(0.0, b);
  } else if ((rest < 0) != (b < 0)) {
    rest += b;
    whole -= 1;
  }
  if (name == "%") return rest;
  if (whole == 0) return std::copysign(0.0, a / b);
  const double floored = std::floor(whole);
  return whole - floored > 0.5 ? floored + 1 : floored;
}

Value repeated(const Value& sequence, int64_t count) {
  const size_t n = count < 0 ? 0 : static_cast<size_t>(count);
  if (const auto* text = sequence.text()) {
    if (text->empty()) return "";
    expect_text_size(n > kMaxText ? n : n * text->size());
    std::string out;
    for (size_t i = 0; i < n; ++i) out += *text;
    return make_text(std::move(out), sequence);
  }
  const List& list = *sequence.list();
  if (list.items.empty()) return make_list({}, list.kind);
  expect_item_count(n > kMaxItems ? n : n * list.items.size());
  std::vector<Value> items;
  for (size_t i = 0; i < n; ++i) {
    items.insert(items.end(), list.items.begin(), list.items.end());
  }
  return make_list(std::move(items), list.kind);
}

bool is_sequence(const Value& value) {
  const List* list = value.list();
  return value.text() != nullptr ||
         (list != nullptr && (list->kind == List::Kind::kList || list->kind == List::Kind::kTuple));
}

Value joined(const Value& a, const Value& b) {
  if (a.text() != nullptr && b.text() != nullptr) {
    expect_text_size(a.text()->size() + b.text()->size());
    if (!a.is_markup() && !b.is_markup()) return *a.text() + *b.text();
    return Markup{escaped_part(a) + escaped_part(b)};
  }
  if (a.list() == nullptr || b.list() == nullptr || a.list()->kind != b.list()->kind) {
    unsupported("+", a, b);
  }
  std::vector<Value> items = a.list()->items;
  items.insert(items.end(), b.list()->items.begin(), b.list()->items.end());
  return make_list(std::move(items), a.list()->kind);
}

}  // namespace

Value binary_operation(const std::string& name, const Value& a, const Value& b) {
  if (name == "%" && a.text() != nullptr) {
    return make_text(percent_format(*a.text(), b, a.is_markup()), a);
  }
  expect_defined(a);
  expect_defined(b);
  if (a.integer() && b.integer()) return integer_operation(name, *a.integer(), *b.integer());
  if (a.number() && b.number()) return float_operation(name, *a.number(), *b.number());
  if (name == "+" && is_sequence(a) && is_sequence(b)) return joined(a, b);
  if (name == "*" && is_sequence(a) && b.integer()) return repeated(a, *b.integer());
  if (name == "*" && is_sequence(b) && a.integer()) return repeated(b, *a.integer());
  unsupported(name, a, b);
}

Value unary_operation(const std::string& name, const Value& a) {
  expect_defined(a);
  if (const auto i = a.integer()) {
    check(*i == INT64_MIN);
    return name == "-" ? -*i : *i;
  }
  if (const auto d = a.number()) return name == "-" ? -*d : *d;
  throw EvalError("bad operand type for unary " + name + ": '" + type_name(a) + "'");
}

bool comparison_holds(const std::string& name, const Value& a, const Value& b) {
  if (name == "==") return equal(a, b);
  if (name == "!=") return !equal(a, b);
  if (name == "in") return contains(b, a);
  if (name == "not in") return !contains(b, a);
  // Every comparison with not-a-number is false.
  if (a.number() && b.number() && (std::isnan(*a.number()) || std::isnan(*b.number()))) {
    return false;
  }
  const int order = compare(a, b, name.c_str());
  if (name == "<") return order < 0;
  if (name == "<=") return order <= 0;
  return name == ">" ? order > 0 : order >= 0;
}

Value call_value(const Value& function, Args args) {
  expect_defined(function);
  if (const Callable* callable = function.callable()) return callable->call(std::move(args));
  throw EvalError("'" + type_name(function) + "' object is not callable");
}

}  // namespace verlcpp::jinja
