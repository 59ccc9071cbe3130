#include "jinja/format_spec.h"

#include <cmath>
#include <cstdio>

#include "jinja/print.h"
#include "jinja/text_split.h"
#include "jinja/unicode.h"

namespace verlcpp::jinja {
namespace {

bool is_align(char c) { return c == '<' || c == '>' || c == '^' || c == '='; }

int64_t read_count(std::string_view& text) {
  int64_t n = 0;
  while (!text.empty() && text[0] >= '0' && text[0] <= '9') {
    n = n * 10 + (text[0] - '0');
    if (n > static_cast<int64_t>(kMaxText)) throw EvalError("a format's width is too large");
    text.remove_prefix(1);
  }
  return n;
}

bool skip(std::string_view& text, char c) {
  if (text.empty() || text[0] != c) return false;
  text.remove_prefix(1);
  return true;
}

std::string aligned(const std::string& text, const FormatSpec& spec, char otherwise) {
  const char align = spec.align != 0 ? spec.align : otherwise;
  if (align != '^') return padded(text, spec.width, spec.fill, align == '<' ? -1 : 1);
  const auto size = static_cast<int64_t>(code_point_count(text));
  const int64_t left = spec.width > size ? (spec.width - size) / 2 : 0;
  return padded(padded(text, size + left, spec.fill, 1), spec.width, spec.fill, -1);
}

std::string in_base(uint64_t number, char type) {
  const unsigned base = type == 'b' ? 2 : (type == 'o' ? 8 : 16);
  std::string digits;
  do {
    digits.insert(digits.begin(), "0123456789abcdef"[number % base]);
    number /= base;
  } while (number > 0);
  return digits;
}

std::string grouped(std::string digits, char separator) {
  size_t whole = digits.find_first_not_of("0123456789");
  if (whole == std::string::npos) whole = digits.size();
  for (size_t at = whole; at > 3; at -= 3) digits.insert(at - 3, 1, separator);
  return digits;
}

std::string upper_ascii(std::string text) {
  for (char& c : text) c = c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c;
  return text;
}

/// Sign, prefix and digits put together and filled up; '=' fills between sign and digits.
std::string number_text(bool negative, std::string digits, const std::string& prefix,
                        const FormatSpec& spec) {
  if (spec.group != 0) digits = grouped(std::move(digits), spec.group);
  const std::string sign = negative ? "-" : (spec.sign == '-' ? "" : std::string(1, spec.sign));
  const std::string head = sign + prefix;
  if (spec.align != '=') return aligned(head + digits, spec, '>');
  return head + padded(digits, spec.width - static_cast<int64_t>(head.size()), spec.fill, 1);
}

std::string integer_text(int64_t number, const FormatSpec& spec) {
  if (spec.precision >= 0) throw EvalError("a precision is not allowed for an integer");
  const bool negative = number < 0;
  const uint64_t size =
      negative ? 0 - static_cast<uint64_t>(number) : static_cast<uint64_t>(number);
  if (spec.type == 'c') {
    std::string out;
    append_code_point(out, static_cast<uint32_t>(size));
    return aligned(out, spec, '<');
  }
  if (spec.type == 0 || spec.type == 'd') {
    return number_text(negative, std::to_string(size), "", spec);
  }
  const bool upper = spec.type == 'X';
  const std::string digits = in_base(size, upper ? 'x' : spec.type);
  const std::string prefix = spec.alternate ? std::string("0") + spec.type : "";
  return number_text(negative, upper ? upper_ascii(digits) : digits, prefix, spec);
}

std::string float_digits(double size, const FormatSpec& spec) {
  if (spec.type == 0) {
    if (spec.precision >= 0) {
      throw EvalError("a format with a precision and no type is not supported; valid: .2f, .3g");
    }
    return float_text(size);
  }
  const bool percent = spec.type == '%';
  const char form[] = {'%', '.', '*', percent ? 'f' : spec.type, 0};
  const int precision = spec.precision < 0 ? 6 : static_cast<int>(spec.precision);
  const double shown = percent ? size * 100 : size;
  const int length = std::snprintf(nullptr, 0, form, precision, shown);
  std::string out(static_cast<size_t>(length) + 1, 0);
  std::snprintf(out.data(), out.size(), form, precision, shown);
  out.pop_back();
  return percent ? out + "%" : out;
}

}  // namespace

FormatSpec parse_format_spec(std::string_view text) {
  const std::string_view whole = text;
  FormatSpec spec;
  size_t after_fill = 0;
  if (!text.empty()) next_code_point(text, after_fill);
  if (after_fill > 0 && after_fill < text.size() && is_align(text[after_fill])) {
    spec.fill = text.substr(0, after_fill);
    spec.align = text[after_fill];
    text.remove_prefix(after_fill + 1);
  } else if (!text.empty() && is_align(text[0])) {
    spec.align = text[0];
    text.remove_prefix(1);
  }
  if (!text.empty() && (text[0] == '+' || text[0] == '-' || text[0] == ' ')) {
    spec.sign = text[0];
    text.remove_prefix(1);
  }
  spec.alternate = skip(text, '#');
  if (skip(text, '0') && spec.align == 0) {
    spec.fill = "0";
    spec.align = '=';
  }
  spec.width = read_count(text);
  if (skip(text, ',')) spec.group = ',';
  if (skip(text, '_')) spec.group = '_';
  if (skip(text, '.')) spec.precision = read_count(text);
  if (!text.empty() && std::string_view("sdcboxXeEfFgG%").find(text[0]) != std::string_view::npos) {
    spec.type = text[0];
    text.remove_prefix(1);
  }
  if (!text.empty()) throw EvalError("the format '" + std::string(whole) + "' is not supported");
  return spec;
}

std::string apply_format_spec(const Value& given, const FormatSpec& spec) {
  const Value value = given.is_bool() && spec.type != 's' ? Value(*given.integer()) : given;
  const bool integral =
      spec.type != 0 && std::string_view("dcboxX").find(spec.type) != std::string_view::npos;
  const bool floating =
      spec.type != 0 && std::string_view("eEfFgG%").find(spec.type) != std::string_view::npos;
  if (!floating && value.is<int64_t>() && spec.type != 's') {
    return integer_text(*value.integer(), spec);
  }
  const auto number = value.number();
  if (number && (floating || (value.is<double>() && spec.type == 0))) {
    return number_text(std::signbit(*number), float_digits(std::fabs(*number), spec), "", spec);
  }
  const bool for_numbers = spec.sign != '-' || spec.group != 0 || spec.align == '=';
  if (value.text() == nullptr || integral || floating || for_numbers || spec.alternate) {
    throw EvalError("a format that does not fit a value of type '" + type_name(value) + "'");
  }
  std::string text = *value.text();
  if (spec.precision >= 0) {
    const std::vector<size_t> offsets = code_point_offsets(text);
    const auto kept = static_cast<size_t>(spec.precision);
    if (kept + 1 < offsets.size()) text.resize(offsets[kept]);
  }
  return aligned(text, spec, '<');
}

}  // namespace verlcpp::jinja
