// Filters that make text: upper, trim, replace, join, indent, tojson, ...

#include "jinja/filters.h"
#include "jinja/operators.h"
#include "jinja/print.h"
#include "jinja/text_split.h"
#include "jinja/unicode.h"

namespace verlcpp::jinja {
namespace {

Value upper(const Value& value, Parameters& p) {
  p.finish();
  return make_text(to_upper(to_text(value)), value);
}

Value lower(const Value& value, Parameters& p) {
  p.finish();
  return make_text(to_lower(to_text(value)), value);
}

Value capitalize(const Value& value, Parameters& p) {
  p.finish();
  return make_text(capitalized(to_text(value)), value);
}

/// A word begins behind white space, - ( { [ and <.
Value title(const Value& value, Parameters& p) {
  p.finish();
  const std::string text = to_text(value);
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const size_t begin = at;
    const auto separates = [&](size_t& position) {
      const uint32_t c = next_code_point(text, position);
      return is_space(c) || c == '-' || c == '(' || c == '{' || c == '[' || c == '<';
    };
    const bool separator = separates(at);
    const size_t first = at;
    for (size_t next = at; next < text.size() && separates(next) == separator;) at = next;
    out += to_upper(text.substr(begin, first - begin)) + to_lower(text.substr(first, at - first));
  }
  return make_text(std::move(out), value);
}

/// The same as the method of str, on what the value prints as.
Value trim(const Value& value, Parameters& p) {
  return call_value(*string_method(make_text(to_text(value), value), "strip"), p.rest());
}

Value center(const Value& value, Parameters& p) {
  const int64_t width = p.take_integer("width", 80);
  p.finish();
  return make_text(padded(to_text(value), width, " ", 0), value);
}

Value replace(const Value& value, Parameters& p) {
  const std::string old = to_text(p.take("old")), with = to_text(p.take("new"));
  const Value count = p.take("count", None{});
  p.finish();
  if (!count.is_none() && !count.integer()) p.fail("takes an integer as 'count'");
  return replaced(to_text(value), old, with, count.integer().value_or(-1));
}

Value string(const Value& value, Parameters& p) {
  p.finish();
  return make_text(to_text(value), value);
}

Value safe(const Value& value, Parameters& p) {
  p.finish();
  return Markup{to_text(value)};
}

Value escape(const Value& value, Parameters& p) {
  p.finish();
  return value.is_markup() ? value : Value(Markup{escape_html(to_text(value))});
}

Value force_escape(const Value& value, Parameters& p) {
  p.finish();
  return Markup{escape_html(to_text(value))};
}

Value join(const Value& value, Parameters& p) {
  const std::string separator = to_text(p.take("d", ""));
  const Value attribute = p.take("attribute", None{});
  p.finish();
  std::string out;
  bool first = true;
  for (const Value& item : iterate(value)) {
    if (!first) out += separator;
    first = false;
    out += to_text(attribute_of(item, attribute));
    expect_text_size(out.size());
  }
  return out;
}

Value indent(const Value& value, Parameters& p) {
  const Value width = p.take("width", 4);
  const bool first = p.take_flag("first", false), blank = p.take_flag("blank", false);
  p.finish();
  expect_defined(value);
  if (value.text() == nullptr) p.fail("indents a string, not " + type_name(value));
  if (width.text() == nullptr && !width.integer())
    p.fail("takes an integer or a string as 'width'");
  const std::string step =
      width.text() != nullptr ? *width.text() : padded("", *width.integer(), " ", -1);
  std::string out = first ? step : "";
  const std::vector<std::string> lines = split_lines(*value.text() + "\n", false);
  for (size_t i = 0; i < lines.size(); ++i) {
    if (i > 0) out += "\n" + (blank || !lines[i].empty() ? step : "");
    out += lines[i];
    expect_text_size(out.size());
  }
  return make_text(std::move(out), value);
}

Value format(const Value& value, Parameters& p) {
  const Args args = p.rest();
  const Value text = make_text(to_text(value), value);
  if (args.named.empty()) return binary_operation("%", text, make_tuple(args.positional));
  if (!args.positional.empty()) p.fail("takes positional or named arguments, not both");
  auto names = std::make_shared<Dict>();
  for (const auto& [name, argument] : args.named) names->set(name, argument);
  return binary_operation("%", text, names);
}

/// transformers' own: nothing escaped for HTML, ensure_ascii off.
Value tojson(const Value& value, Parameters& p) {
  JsonStyle style;
  style.ensure_ascii = p.take_flag("ensure_ascii", false);
  const Value step = p.take("indent", None{});
  if (step.text() != nullptr) {
    style.indent = *step.text();
  } else if (!step.is_none()) {
    if (!step.integer()) p.fail("takes an integer or a string as 'indent'");
    style.indent = padded("", *step.integer(), " ", -1);
  }
  if (style.indent) style.item_separator = ",";
  const Value separators = p.take("separators", None{});
  style.sort_keys = p.take_flag("sort_keys", false);
  p.finish();
  if (!separators.is_none()) {
    const std::vector<Value> pair = iterate(separators);
    if (pair.size() != 2 || pair[0].text() == nullptr || pair[1].text() == nullptr) {
      p.fail("takes two strings as 'separators'");
    }
    style.item_separator = *pair[0].text();
    style.key_separator = *pair[1].text();
  }
  return to_json(value, style);
}

Value truncate(const Value& value, Parameters& p) {
  const int64_t limit = p.take_integer("length", 255);
  const bool kill_words = p.take_flag("killwords", false);
  const std::string end = p.take_text("end", "...");
  const int64_t leeway = p.take_integer("leeway", 5);
  p.finish();
  const int64_t kept = limit - static_cast<int64_t>(code_point_count(end));
  if (kept < 0 || leeway < 0) p.fail("takes a length of at least that of 'end', and a leeway >= 0");
  if (static_cast<int64_t>(length(value)) <= limit + leeway) return value;
  const Value cut = get_slice(value, None{}, kept, None{});
  if (cut.text() == nullptr) p.fail("truncates a string, not " + type_name(value));
  const std::string kept_text =
      kill_words ? *cut.text() : split_at(*cut.text(), " ", 1, true).front();
  return binary_operation("+", make_text(kept_text, value), end);
}

}  // namespace

void add_text_filters(FilterTable& table) {
  table["upper"] = upper;
  table["lower"] = lower;
  table["capitalize"] = capitalize;
  table["title"] = title;
  table["trim"] = trim;
  table["center"] = center;
  table["replace"] = replace;
  table["string"] = string;
  table["safe"] = safe;
  table["escape"] = table["e"] = escape;
  table["forceescape"] = force_escape;
  table["join"] = join;
  table["indent"] = indent;
  table["format"] = format;
  table["tojson"] = tojson;
  table["truncate"] = truncate;
}

}  // namespace verlcpp::jinja
