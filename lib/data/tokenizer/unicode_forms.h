#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace verlcpp::data {

enum class UnicodeForm { kNfc, kNfd, kNfkc, kNfkd };

/// `text`, valid UTF-8, in a normalization form (Unicode Standard Annex 15) of Unicode 9, whose
/// tables the `tokenizers` library has: characters that came later keep their place and form.
std::string normalized(std::string_view text, UnicodeForm form);

/// Every character's full lower case of Unicode 17, without regard to its neighbours.
std::string lower_case(std::string_view text);

/// The White_Space property.
bool is_white_space(uint32_t code_point);

}  // namespace verlcpp::data
