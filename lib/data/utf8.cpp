#include "data/utf8.h"

namespace verlcpp::data {

Utf8Front utf8_front(std::string_view bytes) {
  const auto at = [&](size_t i) { return static_cast<unsigned char>(bytes[i]); };
  const unsigned first = at(0);
  if (first < 0x80) return {1, true, first, false};
  if (first < 0xC2 || first > 0xF4) return {};
  const size_t size = first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
  // The second byte's range excludes overlong forms, surrogates and what lies past U+10FFFF.
  const unsigned low = first == 0xE0 ? 0xA0 : first == 0xF0 ? 0x90 : 0x80;
  const unsigned high = first == 0xED ? 0x9F : first == 0xF4 ? 0x8F : 0xBF;
  uint32_t code_point = first & (0x7Fu >> size);
  for (size_t i = 1; i < size; ++i) {
    const bool fits =
        i < bytes.size() && at(i) >= (i == 1 ? low : 0x80u) && at(i) <= (i == 1 ? high : 0xBFu);
    if (!fits) return {i, false, 0xFFFD, i == bytes.size()};
    code_point = code_point << 6 | (at(i) & 0x3F);
  }
  return {size, true, code_point, false};
}

void append_utf8(uint32_t code_point, std::string& out) {
  const auto add = [&](uint32_t byte) { out += static_cast<char>(byte); };
  if (code_point < 0x80) return add(code_point);
  if (code_point < 0x800) {
    add(0xC0 | code_point >> 6);
  } else {
    if (code_point < 0x10000) {
      add(0xE0 | code_point >> 12);
    } else {
      add(0xF0 | code_point >> 18);
      add(0x80 | (code_point >> 12 & 0x3F));
    }
    add(0x80 | (code_point >> 6 & 0x3F));
  }
  add(0x80 | (code_point & 0x3F));
}

bool is_utf8(std::string_view bytes) {
  while (!bytes.empty()) {
    const Utf8Front front = utf8_front(bytes);
    if (!front.valid) return false;
    bytes.remove_prefix(front.size);
  }
  return true;
}

std::string utf8_lossy(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size());
  while (!bytes.empty()) {
    const Utf8Front sequence = utf8_front(bytes);
    out += sequence.valid ? bytes.substr(0, sequence.size) : std::string_view("\xEF\xBF\xBD");
    bytes.remove_prefix(sequence.size);
  }
  return out;
}

std::vector<uint32_t> code_points(std::string_view text) {
  std::vector<uint32_t> out;
  while (!text.empty()) {
    const Utf8Front sequence = utf8_front(text);
    out.push_back(sequence.code_point);
    text.remove_prefix(sequence.size);
  }
  return out;
}

}  // namespace verlcpp::data
