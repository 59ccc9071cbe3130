#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

// Text as Python's str sees it: code points, not bytes. Strings are UTF-8; an ill-formed byte
// counts as one code point.

namespace verlcpp::jinja {

/// The code point at byte `at`, which is moved behind it.
uint32_t next_code_point(std::string_view text, size_t& at);
void append_code_point(std::string& out, uint32_t code_point);
size_t code_point_count(std::string_view text);
/// Byte offsets at which code points begin, and the end: count + 1 entries.
std::vector<size_t> code_point_offsets(std::string_view text);

/// str.isspace of one code point.
bool is_space(uint32_t code_point);
/// Whether Python's repr shows the character itself. Unassigned code points count as printable.
bool is_printable(uint32_t code_point);

uint32_t simple_upper(uint32_t code_point);
uint32_t simple_lower(uint32_t code_point);
/// The upper case of the few code points where it is several characters, else null.
const char* long_upper(uint32_t code_point);
/// str.islower, str.isupper and str.istitle of one code point; a title letter is neither of both.
bool is_lower(uint32_t code_point);
bool is_upper(uint32_t code_point);
bool is_title(uint32_t code_point);
inline bool is_cased(uint32_t c) { return is_lower(c) || is_upper(c) || is_title(c); }
/// Whether a word goes on behind it, as behind an apostrophe or an accent.
bool is_case_ignorable(uint32_t code_point);

std::string to_upper(std::string_view text);
std::string to_lower(std::string_view text);
/// The lower case of the bytes from `at` to `end`, which what stands around them can change.
std::string to_lower(std::string_view text, size_t at, size_t end);
std::string to_title(uint32_t code_point);

/// The bytes of `text` without white space at its left and right end.
std::string_view strip_space(std::string_view text, bool left, bool right);

}  // namespace verlcpp::jinja
