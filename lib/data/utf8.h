#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace verlcpp::data {

/// `bytes` as valid UTF-8: every maximal ill-formed part becomes one U+FFFD (Unicode 15, section
/// 3.9, "substitution of maximal subparts").
std::string utf8_lossy(std::string_view bytes);

/// The code points of valid UTF-8; U+FFFD where it is not.
std::vector<uint32_t> code_points(std::string_view text);

}  // namespace verlcpp::data
