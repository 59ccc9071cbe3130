#include "jinja/filters.h"

#include "jinja/operators.h"
#include "jinja/unicode.h"

namespace verlcpp::jinja {
namespace {

const FilterTable& filters() {
  static const FilterTable kFilters = [] {
    FilterTable table;
    add_text_filters(table);
    add_list_filters(table);
    add_select_filters(table);
    add_number_filters(table);
    return table;
  }();
  return kFilters;
}

}  // namespace

bool is_filter(const std::string& name) { return filters().contains(name); }

std::string filter_names() {
  std::string out;
  for (const auto& [name, unused] : filters()) out += (out.empty() ? "" : ", ") + name;
  return out;
}

Value apply_filter(const std::string& name, const Value& value, Args args) {
  const auto found = filters().find(name);
  if (found == filters().end()) {
    throw EvalError("no filter named '" + name + "'; valid: " + filter_names());
  }
  Parameters parameters(name, std::move(args));
  return found->second(value, parameters);
}

Value attribute_of(Value value, const Value& path) {
  if (path.is_none()) return value;
  if (path.text() == nullptr) return get_item(value, path);
  const std::string& text = *path.text();
  for (size_t at = 0; at <= text.size();) {
    const size_t end = std::min(text.find('.', at), text.size());
    const std::string part = text.substr(at, end - at);
    const bool number = !part.empty() && part.size() < 10 &&
                        part.find_first_not_of("0123456789") == std::string::npos;
    value = number ? get_item(value, std::stoi(part)) : get_item(value, part);
    at = end + 1;
  }
  return value;
}

Value without_case(const Value& value) {
  return value.text() != nullptr ? Value(to_lower(*value.text())) : value;
}

}  // namespace verlcpp::jinja
