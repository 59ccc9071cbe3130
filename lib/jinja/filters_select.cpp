// map, select, reject and their attribute forms.

#include "jinja/filters.h"
#include "jinja/operators.h"
#include "jinja/tests.h"

namespace verlcpp::jinja {
namespace {

/// The generator of what `body` puts into a vector. These filters begin when somebody takes their
/// first item, so that an error is one only for who gets there.
template <class Body>
Value lazily(const Value& value, Body body) {
  std::vector<Value> out;
  std::optional<EvalError> failure;
  try {
    if (truthy(value)) body(out);
  } catch (const EvalError& error) {
    failure = error;
  }
  const Value generator = make_generator(std::move(out));
  generator.list()->failure = std::move(failure);
  return generator;
}

Value map(const Value& value, Parameters& p) {
  return lazily(value, [&](std::vector<Value>& out) {
    if (p.rest().positional.empty() && p.has("attribute")) {
      const Value attribute = p.take("attribute");
      const Value otherwise = p.take("default", None{});
      p.finish();
      for (const Value& item : iterate(value)) {
        const Value found = attribute_of(item, attribute);
        out.push_back(found.is_undefined() && !otherwise.is_none() ? otherwise : found);
      }
      return;
    }
    const std::string filter = p.take_text("filter");
    for (const Value& item : iterate(value)) out.push_back(apply_filter(filter, item, p.rest()));
  });
}

/// The items that pass a test (wanted) or do not.
template <bool wanted, bool by_attribute>
Value select(const Value& value, Parameters& p) {
  return lazily(value, [&](std::vector<Value>& out) {
    const Value attribute = by_attribute ? p.take("attribute") : Value(None{});
    const bool tested = !p.rest().positional.empty();
    const std::string test = tested ? p.take_text("test") : "";
    for (const Value& item : iterate(value)) {
      const Value subject = attribute_of(item, attribute);
      const bool holds = tested ? apply_test(test, subject, p.rest()) : truthy(subject);
      if (holds == wanted) out.push_back(item);
    }
  });
}

Value default_value(const Value& value, Parameters& p) {
  Value otherwise = p.take("default_value", "");
  const bool boolean = p.take_flag("boolean", false);
  p.finish();
  return value.is_undefined() || (boolean && !truthy(value)) ? otherwise : value;
}

/// An attribute in Python's sense, never an item.
Value attr(const Value& value, Parameters& p) {
  const std::string name = p.take_text("name");
  p.finish();
  const Value found = get_attribute(value, name);
  const bool item = value.dict() != nullptr && found.callable() == nullptr;
  return item ? undefined("dict object has no attribute '" + name + "'") : found;
}

}  // namespace

void add_select_filters(FilterTable& table) {
  table["map"] = map;
  table["select"] = select<true, false>;
  table["reject"] = select<false, false>;
  table["selectattr"] = select<true, true>;
  table["rejectattr"] = select<false, true>;
  table["default"] = table["d"] = default_value;
  table["attr"] = attr;
}

}  // namespace verlcpp::jinja
