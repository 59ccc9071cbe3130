#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace verlcpp::data {

/// GPT-2's alphabet (bytes_to_unicode of openai/gpt-2's encoder.py), in which byte-level
/// vocabularies are spelled: printable Latin-1 bytes stand for themselves, the others, in order,
/// for the code points from 256 on.

/// Every byte of `bytes` as its letter, in UTF-8.
std::string to_byte_letters(std::string_view bytes);
/// The bytes that the letters of valid UTF-8 stand for; nothing when one is not of the alphabet.
std::optional<std::string> from_byte_letters(std::string_view letters);

}  // namespace verlcpp::data
