#pragma once

#include <string>
#include <string_view>

namespace verlcpp::data {

/// The `tokenizers` library runs regular expressions with Oniguruma 6.9 (Ruby's syntax, Unicode
/// 16). This gives the expression that PCRE2 (UTF, UCP, multiline) matches in the same way: classes
/// are spelled out where the two disagree (\s, \w, \h, \b), characters that PCRE2's older Unicode
/// tables do not have are added to \p{...}, and X{n,m}+, possessive in PCRE2, is repeated as in
/// Ruby. DataError naming `where` for what has no equal, such as nested classes and
/// back-references.
std::string to_pcre2(std::string_view oniguruma, const std::string& where);

/// A character that \w matches in Rust's regular expressions, in Oniguruma's syntax: with the
/// joiners, without the Latin-1 numbers.
inline constexpr const char* kRustWord =
    "(?:(?![\\x{B2}\\x{B3}\\x{B9}\\x{BC}-\\x{BE}])[\\w\\x{200C}\\x{200D}])";

}  // namespace verlcpp::data
