#include "jinja/text_split.h"

#include <algorithm>

#include "jinja/unicode.h"
#include "jinja/value.h"

namespace verlcpp::jinja {
namespace {

/// A line break of str.splitlines.
bool breaks_line(uint32_t c) {
  return (c >= 0xA && c <= 0xD) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 ||
         c == 0x2029;
}

/// The byte at which the last word of `text` begins.
size_t word_begin(std::string_view text) {
  size_t begin = text.size();
  while (begin > 0) {
    size_t character = begin - 1;
    while (character > 0 && (static_cast<unsigned char>(text[character]) & 0xC0) == 0x80) {
      --character;
    }
    size_t at = character;
    if (is_space(next_code_point(text, at))) break;
    begin = character;
  }
  return begin;
}

size_t word_end(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    const size_t begin = at;
    if (is_space(next_code_point(text, at))) return begin;
  }
  return text.size();
}

}  // namespace

std::vector<std::string> split_at(std::string_view text, std::string_view separator, int64_t limit,
                                  bool from_right) {
  std::vector<std::string> parts;
  while (limit < 0 || static_cast<int64_t>(parts.size()) < limit) {
    const size_t at = from_right ? text.rfind(separator) : text.find(separator);
    if (at == std::string_view::npos) break;
    expect_item_count(parts.size());
    if (from_right) {
      parts.emplace_back(text.substr(at + separator.size()));
      text = text.substr(0, at);
    } else {
      parts.emplace_back(text.substr(0, at));
      text.remove_prefix(at + separator.size());
    }
  }
  parts.emplace_back(text);
  if (from_right) std::reverse(parts.begin(), parts.end());
  return parts;
}

std::vector<std::string> split_space(std::string_view text, int64_t limit, bool from_right) {
  std::vector<std::string> parts;
  while (true) {
    text = strip_space(text, !from_right, from_right);
    if (text.empty()) break;
    if (limit >= 0 && static_cast<int64_t>(parts.size()) >= limit) {
      parts.emplace_back(text);
      break;
    }
    expect_item_count(parts.size());
    const size_t cut = from_right ? word_begin(text) : word_end(text);
    parts.emplace_back(from_right ? text.substr(cut) : text.substr(0, cut));
    text = from_right ? text.substr(0, cut) : text.substr(cut);
  }
  if (from_right) std::reverse(parts.begin(), parts.end());
  return parts;
}

std::vector<std::string> split_lines(std::string_view text, bool keep_ends) {
  std::vector<std::string> lines;
  size_t begin = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t end = at;
    const uint32_t c = next_code_point(text, at);
    if (!breaks_line(c)) continue;
    if (c == '\r' && at < text.size() && text[at] == '\n') ++at;
    lines.emplace_back(text.substr(begin, (keep_ends ? at : end) - begin));
    expect_item_count(lines.size());
    begin = at;
  }
  if (begin < text.size()) lines.emplace_back(text.substr(begin));
  return lines;
}

std::string replaced(std::string_view text, std::string_view old, std::string_view with,
                     int64_t limit) {
  std::string out;
  size_t from = 0;
  if (old.empty()) {  // in front of every character, and at the end
    const std::vector<size_t> offsets = code_point_offsets(text);
    for (size_t i = 0; i < offsets.size(); ++i) {
      if (limit >= 0 && static_cast<int64_t>(i) >= limit) break;
      out.append(text, from, offsets[i] - from);
      out += with;
      from = offsets[i];
      expect_text_size(out.size());
    }
    return out.append(text.substr(from));
  }
  for (int64_t n = 0; limit < 0 || n < limit; ++n) {
    const size_t at = text.find(old, from);
    if (at == std::string_view::npos) break;
    out.append(text, from, at - from);
    out += with;
    from = at + old.size();
    expect_text_size(out.size());
  }
  return out.append(text.substr(from));
}

std::string padded(const std::string& text, int64_t width, const std::string& fill, int side) {
  const auto size = static_cast<int64_t>(code_point_count(text));
  if (width <= size) return text;
  expect_text_size(static_cast<size_t>(width));
  const int64_t missing = width - size;
  // Python puts the odd one to the left where the width is odd.
  const int64_t left = side < 0 ? 0 : side > 0 ? missing : missing / 2 + (missing & width & 1);
  std::string out;
  for (int64_t i = 0; i < left; ++i) out += fill;
  out += text;
  for (int64_t i = left; i < missing; ++i) out += fill;
  return out;
}

std::string capitalized(const std::string& text) {
  if (text.empty()) return text;
  size_t first = 0;
  const uint32_t c = next_code_point(text, first);
  return to_title(c) + to_lower(text, first, text.size());
}

bool has_case(std::string_view text, bool upper) {
  bool any = false;
  for (size_t at = 0; at < text.size();) {
    const uint32_t c = next_code_point(text, at);
    if (!is_cased(c)) continue;
    if (upper ? !is_upper(c) : !is_lower(c)) return false;
    any = true;
  }
  return any;
}

}  // namespace verlcpp::jinja
