#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace verlcpp::data {

/// What stands at the front of a text: a well-formed sequence, or a maximal ill-formed part
/// (Unicode 15, table 3-7).
struct Utf8Front {
  size_t size = 1;  // bytes consumed
  bool valid = false;
  uint32_t code_point = 0xFFFD;
  bool cut = false;  // ill-formed only because the text ends here
};
/// `bytes` is not empty.
Utf8Front utf8_front(std::string_view bytes);

/// Appends a code point that is no surrogate.
void append_utf8(uint32_t code_point, std::string& out);

bool is_utf8(std::string_view bytes);

/// `bytes` as valid UTF-8: every maximal ill-formed part becomes one U+FFFD (Unicode 15, section
/// 3.9, "substitution of maximal subparts").
std::string utf8_lossy(std::string_view bytes);

/// The code points of valid UTF-8; U+FFFD where it is not.
std::vector<uint32_t> code_points(std::string_view text);

}  // namespace verlcpp::data
