#pragma once

#include <string>
#include <string_view>

namespace verlcpp::data {

/// Characters of Unicode 15 and 16 that a general category ("L", "Lu") or a script ("Han") has
/// beyond Unicode 14, which is what PCRE2 10.42 knows: ranges for a PCRE2 character class, such as
/// "\x{1C89}-\x{1C8A}"; empty if there are none. A newer PCRE2 has them already, which adding them
/// does not change.
std::string newer_in_category(std::string_view category);
std::string newer_in_script(std::string_view script);

}  // namespace verlcpp::data
