#include "reward/text.h"

#include <locale.h>
#include <wctype.h>

#include <algorithm>
#include <array>

#include "data/utf8.h"

namespace verlcpp::reward {
namespace {

/// The character tables of the C library for all of Unicode, whatever the user's locale is.
locale_t unicode() {
  static const locale_t locale = newlocale(LC_CTYPE_MASK, "C.UTF-8", nullptr);
  return locale;
}

bool is_ascii(char32_t c) { return c < 0x80; }

bool is_alphanumeric(char32_t c) {
  if (is_ascii(c)) {
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
  }
  return unicode() != nullptr && iswalnum_l(static_cast<wint_t>(c), unicode()) != 0;
}

/// Where the decimal digits of a script begin (Unicode's category Nd); ten in a row.
constexpr std::array<char32_t, 37> kZeros = {
    '0',    0x0660, 0x06F0, 0x07C0, 0x0966, 0x09E6, 0x0A66, 0x0AE6, 0x0B66, 0x0BE6,
    0x0C66, 0x0CE6, 0x0D66, 0x0DE6, 0x0E50, 0x0ED0, 0x0F20, 0x1040, 0x1090, 0x17E0,
    0x1810, 0x1946, 0x19D0, 0x1A80, 0x1A90, 0x1B50, 0x1BB0, 0x1C40, 0x1C50, 0xA620,
    0xA8D0, 0xA900, 0xA9D0, 0xA9F0, 0xAA50, 0xABF0, 0xFF10};

bool is_decimal(char32_t c) {
  return std::any_of(kZeros.begin(), kZeros.end(),
                     [c](char32_t zero) { return c >= zero && c < zero + 10; });
}

bool between(char32_t c, char32_t low, char32_t high) { return c >= low && c <= high; }

bool is_raised_or_lowered(char32_t c) {
  return c == 0xB2 || c == 0xB3 || c == 0xB9 || c == 0x2070 || between(c, 0x2074, 0x2079) ||
         between(c, 0x2080, 0x2089) || between(c, 0x2460, 0x2468);
}

}  // namespace

Text to_text(std::string_view utf8) {
  const std::vector<uint32_t> points = data::code_points(utf8);
  return {points.begin(), points.end()};
}

std::string to_utf8(TextView text) {
  std::string out;
  const auto tail = [&](char32_t c, int shift) {
    out += static_cast<char>(0x80 | ((c >> shift) & 0x3F));
  };
  for (const char32_t c : text) {
    if (c < 0x80) {
      out += static_cast<char>(c);
    } else if (c < 0x800) {
      out += static_cast<char>(0xC0 | (c >> 6));
      tail(c, 0);
    } else if (c < 0x10000) {
      out += static_cast<char>(0xE0 | (c >> 12));
      tail(c, 6);
      tail(c, 0);
    } else {
      out += static_cast<char>(0xF0 | (c >> 18));
      tail(c, 12);
      tail(c, 6);
      tail(c, 0);
    }
  }
  return out;
}

bool is_space(char32_t c) {
  return between(c, 0x09, 0x0D) || between(c, 0x1C, 0x20) || c == 0x85 || c == 0xA0 ||
         c == 0x1680 || between(c, 0x2000, 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F ||
         c == 0x205F || c == 0x3000;
}

bool is_digit(char32_t c) { return is_decimal(c) || is_raised_or_lowered(c); }

bool is_word(char32_t c) { return c == '_' || is_alphanumeric(c) || is_digit(c); }

bool is_letter(char32_t c) { return is_alphanumeric(c) && !is_digit(c); }

Text lower(TextView text) {
  Text out;
  for (const char32_t c : text) {
    if (c == 0x130) {  // I with a dot: the dot stays as a mark of its own
      out += U"i\u0307";
    } else if (is_ascii(c)) {
      out += c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c;
    } else {
      const bool known = unicode() != nullptr;
      out += known ? static_cast<char32_t>(towlower_l(static_cast<wint_t>(c), unicode())) : c;
    }
  }
  return out;
}

Text strip(TextView text) {
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return Text(text);
}

TextView last_characters(TextView text, size_t count) {
  return text.size() <= count ? text : text.substr(text.size() - count);
}

Text replaced(TextView text, TextView before, TextView after) {
  Text out;
  size_t from = 0;
  for (size_t at = text.find(before); at != TextView::npos; at = text.find(before, from)) {
    out += text.substr(from, at - from);
    out += after;
    from = at + before.size();
  }
  return out += text.substr(from);
}

std::vector<Text> split(TextView text, TextView separator) {
  std::vector<Text> parts;
  size_t from = 0;
  for (size_t at = text.find(separator); at != TextView::npos; at = text.find(separator, from)) {
    parts.emplace_back(text.substr(from, at - from));
    from = at + separator.size();
  }
  parts.emplace_back(text.substr(from));
  return parts;
}

size_t count(TextView text, TextView part) { return split(text, part).size() - 1; }

}  // namespace verlcpp::reward
