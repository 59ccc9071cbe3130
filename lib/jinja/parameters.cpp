#include "jinja/parameters.h"

namespace verlcpp::jinja {

void Parameters::fail(const std::string& message) const {
  throw EvalError(function_ + "() " + message);
}

bool Parameters::has(const std::string& name) const {
  if (next_ < args_.positional.size()) return true;
  for (const auto& [known, value] : args_.named) {
    if (known == name) return true;
  }
  return false;
}

bool Parameters::find(const std::string& name, Value& out) {
  bool found = next_ < args_.positional.size();
  if (found) out = args_.positional[next_++];
  for (size_t i = 0; i < args_.named.size(); ++i) {
    if (args_.named[i].first != name) continue;
    if (found) fail("got several values for '" + name + "'");
    out = args_.named[i].second;
    args_.named.erase(args_.named.begin() + static_cast<std::ptrdiff_t>(i));
    return true;
  }
  return found;
}

Value Parameters::take(const std::string& name) {
  Value out;
  if (!find(name, out)) fail("is missing its argument '" + name + "'");
  return out;
}

Value Parameters::take(const std::string& name, Value otherwise) {
  Value out;
  return find(name, out) ? out : std::move(otherwise);
}

std::string Parameters::take_text(const std::string& name) {
  const Value value = take(name);
  expect_defined(value);
  if (value.text() == nullptr) {
    fail("takes a string as '" + name + "', not " + type_name(value));
  }
  return *value.text();
}

std::string Parameters::take_text(const std::string& name, const std::string& otherwise) {
  return has(name) ? take_text(name) : otherwise;
}

int64_t Parameters::take_integer(const std::string& name, int64_t otherwise) {
  const Value value = take(name, otherwise);
  expect_defined(value);
  const auto number = value.integer();
  if (!number) fail("takes an integer as '" + name + "', not " + type_name(value));
  return *number;
}

bool Parameters::take_flag(const std::string& name, bool otherwise) {
  return truthy(take(name, otherwise));
}

void Parameters::finish() const {
  if (next_ < args_.positional.size()) {
    fail("takes at most " + std::to_string(next_) + " arguments, not " +
         std::to_string(args_.positional.size()));
  }
  if (!args_.named.empty()) {
    fail("has no parameter '" + args_.named.front().first + "'");
  }
}

Args Parameters::rest() const {
  Args out;
  out.positional.assign(args_.positional.begin() + static_cast<std::ptrdiff_t>(next_),
                        args_.positional.end());
  out.named = args_.named;
  return out;
}

}  // namespace verlcpp::jinja
