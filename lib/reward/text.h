#pragma once

#include <string>
#include <string_view>
#include <vector>

// Text as Python's str has it: code points, with the character classes of its `re` module, so that
// a rule that verl writes in Python can be told here word for word.

namespace verlcpp::reward {

using Text = std::u32string;
using TextView = std::u32string_view;

/// Code points of UTF-8; U+FFFD where it is none.
Text to_text(std::string_view utf8);
std::string to_utf8(TextView text);

/// str.isspace, which is also what \s matches.
bool is_space(char32_t c);
/// What \w matches: a letter, a digit or an underscore.
bool is_word(char32_t c);
/// str.isalpha: a letter.
bool is_letter(char32_t c);
/// str.isdigit: a decimal digit of any script, or a superscript or subscript one.
bool is_digit(char32_t c);
/// str.lower, without the one rule that looks at neighbours (the final sigma).
Text lower(TextView text);

/// Without white space at both ends.
Text strip(TextView text);
/// The last `count` characters, or all.
TextView last_characters(TextView text, size_t count);
/// str.replace: every place from left to right, none overlapping.
Text replaced(TextView text, TextView before, TextView after);
/// str.split by a separator: one part more than there are separators.
std::vector<Text> split(TextView text, TextView separator);
inline bool contains(TextView text, TextView part) { return text.find(part) != TextView::npos; }
/// How many of `part` lie in `text`, none overlapping (str.count).
size_t count(TextView text, TextView part);

}  // namespace verlcpp::reward
