#include "jinja/literals.h"

#include <charconv>
#include <cstdlib>

#include "jinja/lexer.h"
#include "jinja/unicode.h"

namespace verlcpp::jinja {
namespace {

/// One-letter escapes and what they stand for.
constexpr std::string_view kLetters = "ntrabfv\\'\"", kMeanings = "\n\t\r\a\b\f\v\\'\"";

bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// How many characters of `text` are digits and single underscores between them.
size_t digit_run(std::string_view text) {
  size_t n = 0;
  while (n < text.size() && (is_digit(text[n]) || (text[n] == '_' && n > 0 && n + 1 < text.size() &&
                                                   is_digit(text[n + 1])))) {
    ++n;
  }
  return n;
}

/// Characters of a fraction and an exponent behind `whole` digits; 0 for an integer.
size_t float_part(std::string_view text, size_t whole) {
  size_t end = whole;
  if (end < text.size() && text[end] == '.') {
    const size_t fraction = digit_run(text.substr(end + 1));
    if (fraction == 0) return 0;
    end += 1 + fraction;
  }
  if (end < text.size() && (text[end] == 'e' || text[end] == 'E')) {
    size_t digits = end + 1;
    if (digits < text.size() && (text[digits] == '+' || text[digits] == '-')) ++digits;
    const size_t exponent = digits < text.size() ? digit_run(text.substr(digits)) : 0;
    if (exponent > 0) end = digits + exponent;
  }
  return end - whole;
}

std::string without_underscores(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c != '_') out += c;
  }
  return out;
}

int base_of(std::string_view text) {
  if (text.size() < 3 || text[0] != '0') return 10;
  const char c = static_cast<char>(text[1] | 0x20);
  return c == 'x' ? 16 : c == 'o' ? 8 : c == 'b' ? 2 : 10;
}

size_t based_run(std::string_view text) {
  size_t n = 2;
  while (n < text.size() &&
         (std::isxdigit(static_cast<unsigned char>(text[n])) || text[n] == '_')) {
    ++n;
  }
  return n;
}

}  // namespace

Number read_number(std::string_view text, bool may_be_float, int line) {
  Number out;
  const int base = base_of(text);
  out.length = base == 10 ? digit_run(text) : based_run(text);
  if (const size_t more = base == 10 && may_be_float ? float_part(text, out.length) : 0; more > 0) {
    out.length += more;
    out.is_float = true;
    out.number = std::strtod(without_underscores(text.substr(0, out.length)).c_str(), nullptr);
    return out;
  }
  const std::string digits =
      without_underscores(text.substr(base == 10 ? 0 : 2, out.length - (base == 10 ? 0 : 2)));
  const char* end = digits.data() + digits.size();
  const auto read = std::from_chars(digits.data(), end, out.integer, base);
  if (read.ec != std::errc() || read.ptr != end) {
    throw SyntaxError("the number " + std::string(text.substr(0, out.length)) +
                          " cannot be read; valid: an integer of 64 bits, or a float",
                      line);
  }
  return out;
}

std::string unescaped(std::string_view text, int line) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\' || i + 1 >= text.size()) {
      out += text[i];
      continue;
    }
    const char c = text[++i];
    if (const size_t known = kLetters.find(c); known != std::string_view::npos) {
      out += kMeanings[known];
    } else if (c == 'x' || c == 'u' || c == 'U') {
      const size_t n = c == 'x' ? 2 : (c == 'u' ? 4 : 8);
      uint32_t code = 0;
      const std::string_view digits = text.substr(i + 1, n);
      const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), code, 16);
      if (digits.size() < n || read.ptr != digits.data() + n || code > 0x10FFFF) {
        throw SyntaxError("a string has a truncated \\" + std::string(1, c) + " escape", line);
      }
      append_code_point(out, code);
      i += n;
    } else if (c >= '0' && c <= '7') {
      uint32_t code = 0;
      size_t n = 0;
      for (; n < 3 && i < text.size() && text[i] >= '0' && text[i] <= '7'; ++n, ++i) {
        code = code * 8 + static_cast<uint32_t>(text[i] - '0');
      }
      --i;
      append_code_point(out, code);
    } else if (c != '\n') {
      out += '\\';
      out += c;
    }
  }
  return out;
}

}  // namespace verlcpp::jinja
