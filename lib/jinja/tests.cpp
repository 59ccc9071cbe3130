#include "jinja/tests.h"

#include <map>

#include "jinja/filters.h"
#include "jinja/operators.h"
#include "jinja/parameters.h"
#include "jinja/print.h"
#include "jinja/text_split.h"

namespace verlcpp::jinja {
namespace {

using Test = bool (*)(const Value& value, Parameters& parameters);

double remainder(const Value& value, const Value& divisor) {
  const Value rest = binary_operation("%", value, divisor);
  const auto number = rest.number();
  if (!number) throw EvalError("takes a number");
  return *number;
}

bool is_iterable(const Value& value) {
  return value.text() != nullptr || value.list() != nullptr || value.dict() != nullptr ||
         value.is_undefined();
}

bool is_sequence(const Value& value) {
  if (const List* list = value.list()) return list->indexed();
  return is_iterable(value);
}

/// Python's "is", for values of which that can be said.
bool same(const Value& a, const Value& b) {
  if (a.data().index() != b.data().index()) return false;
  if (a.list() != nullptr || a.dict() != nullptr) {
    return a.list() == b.list() && a.dict() == b.dict();
  }
  return equal(a, b);
}

template <char kind>
bool compared(const Value& value, Parameters& p) {
  static const std::map<char, std::string> kNames = {
      {'=', "=="}, {'!', "!="}, {'<', "<"}, {'l', "<="}, {'>', ">"}, {'g', ">="}, {'i', "in"}};
  return comparison_holds(kNames.at(kind), value, p.take("other"));
}

const std::map<std::string, Test>& tests() {
  static const std::map<std::string, Test> kTests = {
      {"defined", [](const Value& v, Parameters&) { return !v.is_undefined(); }},
      {"undefined", [](const Value& v, Parameters&) { return v.is_undefined(); }},
      {"none", [](const Value& v, Parameters&) { return v.is_none(); }},
      {"boolean", [](const Value& v, Parameters&) { return v.is_bool(); }},
      {"true", [](const Value& v, Parameters&) { return v.is_bool() && truthy(v); }},
      {"false", [](const Value& v, Parameters&) { return v.is_bool() && !truthy(v); }},
      {"integer", [](const Value& v, Parameters&) { return v.is<int64_t>(); }},
      {"float", [](const Value& v, Parameters&) { return v.is<double>(); }},
      {"number", [](const Value& v, Parameters&) { return v.number().has_value(); }},
      {"string", [](const Value& v, Parameters&) { return v.text() != nullptr; }},
      {"mapping", [](const Value& v, Parameters&) { return v.dict() != nullptr; }},
      {"iterable", [](const Value& v, Parameters&) { return is_iterable(v); }},
      {"sequence", [](const Value& v, Parameters&) { return is_sequence(v); }},
      {"callable",
       [](const Value& v, Parameters&) { return v.callable() != nullptr || v.is_undefined(); }},
      {"escaped", [](const Value& v, Parameters&) { return v.is_markup(); }},
      {"lower", [](const Value& v, Parameters&) { return has_case(to_text(v), false); }},
      {"upper", [](const Value& v, Parameters&) { return has_case(to_text(v), true); }},
      {"odd", [](const Value& v, Parameters&) { return remainder(v, 2) == 1; }},
      {"even", [](const Value& v, Parameters&) { return remainder(v, 2) == 0; }},
      {"divisibleby",
       [](const Value& v, Parameters& p) { return remainder(v, p.take("num")) == 0; }},
      {"sameas", [](const Value& v, Parameters& p) { return same(v, p.take("other")); }},
      {"filter",
       [](const Value& v, Parameters&) { return v.text() != nullptr && is_filter(*v.text()); }},
      {"test",
       [](const Value& v, Parameters&) { return v.text() != nullptr && is_test(*v.text()); }},
      {"in", compared<'i'>},
      {"eq", compared<'='>},
      {"equalto", compared<'='>},
      {"==", compared<'='>},
      {"ne", compared<'!'>},
      {"!=", compared<'!'>},
      {"lt", compared<'<'>},
      {"lessthan", compared<'<'>},
      {"<", compared<'<'>},
      {"le", compared<'l'>},
      {"<=", compared<'l'>},
      {"gt", compared<'>'>},
      {"greaterthan", compared<'>'>},
      {">", compared<'>'>},
      {"ge", compared<'g'>},
      {">=", compared<'g'>},
  };
  return kTests;
}

}  // namespace

bool is_test(const std::string& name) { return tests().contains(name); }

std::string test_names() {
  std::string out;
  for (const auto& [name, unused] : tests()) out += (out.empty() ? "" : ", ") + name;
  return out;
}

bool apply_test(const std::string& name, const Value& value, Args args) {
  const auto found = tests().find(name);
  if (found == tests().end()) {
    throw EvalError("no test named '" + name + "'; valid: " + test_names());
  }
  Parameters parameters(name, std::move(args));
  const bool holds = found->second(value, parameters);
  parameters.finish();
  return holds;
}

}  // namespace verlcpp::jinja
