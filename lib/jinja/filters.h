#pragma once

#include <map>
#include <string>

#include "jinja/parameters.h"
#include "jinja/value.h"

// Jinja's filters, and transformers' tojson.

namespace verlcpp::jinja {

bool is_filter(const std::string& name);
/// "a, b, c": all that there are.
std::string filter_names();
/// value|name(args). EvalError for a filter that does not exist or arguments that it does not take.
Value apply_filter(const std::string& name, const Value& value, Args args);

using Filter = Value (*)(const Value& value, Parameters& parameters);
using FilterTable = std::map<std::string, Filter>;
// filters_text.cpp, filters_list.cpp, filters_select.cpp, filters_number.cpp
void add_text_filters(FilterTable& table);
void add_list_filters(FilterTable& table);
void add_select_filters(FilterTable& table);
void add_number_filters(FilterTable& table);

/// The path of a filter's `attribute`: "a.b.0", an index, or none for the value itself.
Value attribute_of(Value value, const Value& path);
/// A string in lower case; any other value as it is.
Value without_case(const Value& value);

}  // namespace verlcpp::jinja
