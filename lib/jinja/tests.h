#pragma once

#include <string>

#include "jinja/value.h"

namespace verlcpp::jinja {

bool is_test(const std::string& name);
/// "a, b, c": all that there are.
std::string test_names();
/// value is name(args). EvalError for a test that does not exist or arguments that it does not
/// take.
bool apply_test(const std::string& name, const Value& value, Args args);

}  // namespace verlcpp::jinja
