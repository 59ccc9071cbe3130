// text % values and text.format(...).

#include <cmath>
#include <string_view>

#include "jinja/format_spec.h"
#include "jinja/operators.h"
#include "jinja/print.h"

namespace verlcpp::jinja {
namespace {

/// The values behind %, which conversions take one after the other, or by name.
class PercentArguments {
 public:
  explicit PercentArguments(const Value& value) : value_(value) {
    const List* list = value.list();
    if (list != nullptr && list->kind == List::Kind::kTuple) tuple_ = list;
  }
  Value next() {
    const size_t count = tuple_ != nullptr ? tuple_->items.size() : 1;
    if (taken_ >= count) throw EvalError("not enough arguments for format string");
    const Value& out = tuple_ != nullptr ? tuple_->items[taken_] : value_;
    ++taken_;
    return out;
  }
  Value named(const std::string& name) {
    const Dict* dict = value_.dict();
    if (dict == nullptr) throw EvalError("format requires a mapping");
    const Value* found = dict->find(name);
    if (found == nullptr) throw EvalError("format: no key '" + name + "'");
    return *found;
  }
  void expect_all_taken() const {
    const size_t count = tuple_ != nullptr ? tuple_->items.size() : 1;
    // Python lets everything pass that has items but tuples and strings.
    const bool has_items = value_.dict() != nullptr || value_.is_undefined() ||
                           (value_.list() != nullptr && value_.list()->indexed());
    if (taken_ < count && (tuple_ != nullptr || !has_items)) {
      throw EvalError("not all arguments converted during string formatting");
    }
  }

 private:
  const Value& value_;
  const List* tuple_ = nullptr;
  size_t taken_ = 0;
};

std::string converted(const Value& value, FormatSpec spec, char type, bool escapes) {
  if (type == 's' || type == 'r') {
    spec.type = 0;
    if (spec.align == 0 || spec.align == '=') spec.align = '>';
    spec.fill = " ";
    const std::string text = type == 's' ? to_text(value) : to_repr(value);
    const bool as_it_is = !escapes || (type == 's' && value.is_markup());
    return apply_format_spec(as_it_is ? text : escape_html(text), spec);
  }
  if (type == 'i' || type == 'u') type = 'd';
  spec.type = type;
  if (type != 'd' || !value.is<double>()) return apply_format_spec(value, spec);
  const double whole = std::trunc(*value.number());
  if (!std::isfinite(whole)) throw EvalError("format: %d takes a finite number");
  if (std::fabs(whole) < 0x1p63) return apply_format_spec(static_cast<int64_t>(whole), spec);
  if (spec.precision >= 0) throw EvalError("a precision is not allowed for an integer");
  spec.type = 'f';  // has all digits of such a number
  spec.precision = 0;
  return apply_format_spec(whole, spec);
}

/// What stands between % and the type: flags, width, precision.
FormatSpec percent_spec(std::string_view text, size_t& at) {
  FormatSpec spec;
  bool zero = false;
  for (; at < text.size(); ++at) {
    const char c = text[at];
    if (c == '-') {
      spec.align = '<';
    } else if (c == '0') {
      zero = true;
    } else if (c == '+' || c == ' ') {
      spec.sign = c;
    } else if (c == '#') {
      spec.alternate = true;
    } else {
      break;
    }
  }
  if (zero && spec.align == 0) {
    spec.fill = "0";
    spec.align = '=';
  }
  const size_t begin = at;
  while (at < text.size() &&
         (std::isdigit(static_cast<unsigned char>(text[at])) || text[at] == '.')) {
    ++at;
  }
  const FormatSpec sizes = parse_format_spec(text.substr(begin, at - begin));
  spec.width = sizes.width;
  spec.precision = sizes.precision;
  return spec;
}

/// One replacement field of str.format, and the numbering of those without a name.
class BraceFormatter {
 public:
  BraceFormatter(const Args& args, bool escapes) : args_(args), escapes_(escapes) {}

  std::string field(std::string_view text) {
    const size_t colon = text.find(':');
    const std::string_view spec = colon == std::string_view::npos ? "" : text.substr(colon + 1);
    if (spec.find('{') != std::string_view::npos) {
      throw EvalError("format: a field inside a format specification is not supported");
    }
    std::string_view name = text.substr(0, colon);
    const size_t bang = name.find('!');
    const std::string_view conversion = bang == std::string_view::npos ? "" : name.substr(bang + 1);
    Value value = lookup(name.substr(0, bang));
    if (conversion == "r") value = to_repr(value);
    if (conversion == "s") value = to_text(value);
    const std::string out =
        spec.empty() ? to_text(value) : apply_format_spec(value, parse_format_spec(spec));
    return escapes_ && !value.is_markup() ? escape_html(out) : out;
  }

 private:
  Value lookup(std::string_view path) {
    const size_t end = std::min(path.find('.'), path.find('['));
    Value value = argument(std::string(path.substr(0, end)));
    path = end == std::string_view::npos ? "" : path.substr(end);
    while (!path.empty()) {
      const bool item = path[0] == '[';
      const size_t stop = item ? path.find(']') : std::min(path.find('.', 1), path.find('[', 1));
      const std::string name(path.substr(1, stop == std::string_view::npos ? stop : stop - 1));
      if (!item) {
        value = get_attribute(value, name);
      } else if (!name.empty() && name.find_first_not_of("0123456789") == std::string::npos) {
        value = get_item(value, std::stoi(name.substr(0, 9)));
      } else {
        value = get_item(value, name);
      }
      path = stop == std::string_view::npos ? "" : path.substr(stop + (item ? 1 : 0));
    }
    return value;
  }

  Value argument(const std::string& name) {
    if (name.empty()) return positional(next_++);
    if (name.find_first_not_of("0123456789") == std::string::npos) {
      return positional(static_cast<size_t>(std::stoi(name.substr(0, 9))));
    }
    for (const auto& [known, value] : args_.named) {
      if (known == name) return value;
    }
    throw EvalError("format: no argument '" + name + "'");
  }

  Value positional(size_t index) {
    if (index < args_.positional.size()) return args_.positional[index];
    throw EvalError("format: replacement index " + std::to_string(index) + " out of range");
  }

  const Args& args_;
  bool escapes_;
  size_t next_ = 0;
};

}  // namespace

std::string percent_format(const std::string& text, const Value& value, bool escapes) {
  PercentArguments arguments(value);
  std::string out;
  for (size_t at = 0; at < text.size(); ++at) {
    if (text[at] != '%') {
      out += text[at];
      continue;
    }
    ++at;
    std::optional<std::string> name;
    if (at < text.size() && text[at] == '(') {
      const size_t end = text.find(')', at);
      if (end == std::string::npos) throw EvalError("incomplete format key");
      name = text.substr(at + 1, end - at - 1);
      at = end + 1;
    }
    const FormatSpec spec = percent_spec(text, at);
    if (at >= text.size()) throw EvalError("incomplete format");
    if (text[at] == '%') {
      out += '%';
      continue;
    }
    if (std::string_view("srdiufFeEgGxXoc").find(text[at]) == std::string_view::npos) {
      throw EvalError("unsupported format character '" + text.substr(at, 1) + "'");
    }
    out += converted(name ? arguments.named(*name) : arguments.next(), spec, text[at], escapes);
    expect_text_size(out.size());
  }
  arguments.expect_all_taken();
  return out;
}

std::string brace_format(const std::string& text, const Args& args, bool escapes) {
  BraceFormatter formatter(args, escapes);
  std::string out;
  for (size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    if (c != '{' && c != '}') {
      out += c;
      continue;
    }
    if (at + 1 < text.size() && text[at + 1] == c) {
      out += text[at++];
      continue;
    }
    const size_t end = text.find('}', at);
    if (c == '}' || end == std::string::npos) {
      throw EvalError("format: a single '" + std::string(1, c) +
                      "'; valid: a pair {}, or it doubled");
    }
    out += formatter.field(std::string_view(text).substr(at + 1, end - at - 1));
    expect_text_size(out.size());
    at = end;
  }
  return out;
}

}  // namespace verlcpp::jinja
