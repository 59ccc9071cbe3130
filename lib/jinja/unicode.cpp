#include "jinja/unicode.h"

namespace verlcpp::jinja {
namespace {

struct Range {
  uint32_t first, last;
};

/// What str.isprintable denies: controls, formats, private use and separators (Unicode 14).
constexpr Range kUnprintable[] = {
    {0x0, 0x1F},        {0x7F, 0xA0},       {0xAD, 0xAD},       {0x600, 0x605},
    {0x61C, 0x61C},     {0x6DD, 0x6DD},     {0x70F, 0x70F},     {0x890, 0x891},
    {0x8E2, 0x8E2},     {0x1680, 0x1680},   {0x180E, 0x180E},   {0x2000, 0x200F},
    {0x2028, 0x202F},   {0x205F, 0x2064},   {0x2066, 0x206F},   {0x3000, 0x3000},
    {0xD800, 0xF8FF},   {0xFEFF, 0xFEFF},   {0xFFF9, 0xFFFB},   {0x110BD, 0x110BD},
    {0x110CD, 0x110CD}, {0x13430, 0x13438}, {0x1BCA0, 0x1BCA3}, {0x1D173, 0x1D17A},
    {0xE0001, 0xE0001}, {0xE0020, 0xE007F}, {0xF0000, 0xFFFFD}, {0x100000, 0x10FFFD},
};

constexpr uint32_t kReplacement = 0xFFFD;  // for an ill-formed byte

bool is_continuation(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) == 0x80; }

size_t length_of(unsigned char first) {
  if (first < 0xC0) return 1;
  if (first < 0xE0) return 2;
  return first < 0xF0 ? 3 : 4;
}

/// The lower case of a capital sigma at the end of a word differs.
bool ends_word(std::string_view text, size_t at, size_t after) {
  uint32_t c = 0;
  do {
    if (at == 0) return false;
    do {
      --at;
    } while (at > 0 && is_continuation(text[at]));
    size_t position = at;
    c = next_code_point(text, position);
  } while (is_case_ignorable(c));
  if (!is_cased(c)) return false;
  do {
    if (after >= text.size()) return true;
    c = next_code_point(text, after);
  } while (is_case_ignorable(c));
  return !is_cased(c);
}

}  // namespace

uint32_t next_code_point(std::string_view text, size_t& at) {
  const auto first = static_cast<unsigned char>(text[at]);
  const size_t length = length_of(first);
  if (length == 1 || at + length > text.size()) {
    ++at;
    return first < 0x80 ? first : kReplacement;
  }
  uint32_t c = first & (0xFFu >> (length + 1));
  for (size_t i = 1; i < length; ++i) {
    if (!is_continuation(text[at + i])) {
      ++at;
      return kReplacement;
    }
    c = c << 6 | (static_cast<unsigned char>(text[at + i]) & 0x3Fu);
  }
  at += length;
  return c;
}

void append_code_point(std::string& out, uint32_t c) {
  const auto push = [&](uint32_t byte) { out.push_back(static_cast<char>(byte)); };
  if (c < 0x80) return push(c);
  if (c < 0x800) {
    push(0xC0 | c >> 6);
  } else if (c < 0x10000) {
    push(0xE0 | c >> 12);
    push(0x80 | (c >> 6 & 0x3F));
  } else {
    push(0xF0 | c >> 18);
    push(0x80 | (c >> 12 & 0x3F));
    push(0x80 | (c >> 6 & 0x3F));
  }
  push(0x80 | (c & 0x3F));
}

size_t code_point_count(std::string_view text) {
  size_t count = 0;
  for (size_t at = 0; at < text.size(); ++count) next_code_point(text, at);
  return count;
}

std::vector<size_t> code_point_offsets(std::string_view text) {
  std::vector<size_t> offsets = {0};
  for (size_t at = 0; at < text.size();) {
    next_code_point(text, at);
    offsets.push_back(at);
  }
  return offsets;
}

bool is_space(uint32_t c) {
  if (c <= 0x20) return c == 0x20 || (c >= 0x9 && c <= 0xD) || (c >= 0x1C && c <= 0x1F);
  return c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 ||
         c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

bool is_printable(uint32_t c) {
  if (c == ' ') return true;
  for (const Range& range : kUnprintable) {
    if (c >= range.first && c <= range.last) return false;
  }
  return true;
}

std::string to_upper(std::string_view text) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const uint32_t c = next_code_point(text, at);
    const char* several = long_upper(c);
    if (several != nullptr) {
      out += several;
    } else {
      append_code_point(out, simple_upper(c));
    }
  }
  return out;
}

std::string to_lower(std::string_view text) { return to_lower(text, 0, text.size()); }

std::string to_lower(std::string_view text, size_t at, size_t end) {
  constexpr uint32_t kSigma = 0x3A3, kFinalSigma = 0x3C2, kDottedI = 0x130;
  std::string out;
  while (at < end) {
    const size_t begin = at;
    const uint32_t c = next_code_point(text, at);
    if (c == kDottedI) {
      out += "i\xCC\x87";
    } else if (c == kSigma && ends_word(text, begin, at)) {
      append_code_point(out, kFinalSigma);
    } else {
      append_code_point(out, simple_lower(c));
    }
  }
  return out;
}

std::string_view strip_space(std::string_view text, bool left, bool right) {
  while (left && !text.empty()) {
    size_t at = 0;
    if (!is_space(next_code_point(text, at))) break;
    text.remove_prefix(at);
  }
  while (right && !text.empty()) {
    size_t last = text.size() - 1;
    while (last > 0 && is_continuation(text[last])) --last;
    size_t at = last;
    if (!is_space(next_code_point(text, at))) break;
    text.remove_suffix(text.size() - last);
  }
  return text;
}

}  // namespace verlcpp::jinja
