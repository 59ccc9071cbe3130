#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string_view>

namespace verlcpp::data {

/// Levels of arrays and objects in JSON from outside: printing a deeper value back would overflow
/// the stack.
inline constexpr int kMaxJsonDepth = 64;

/// A value from outside. DataError where it is nested deeper than kMaxJsonDepth, nlohmann's
/// exception where the text is no JSON.
nlohmann::ordered_json parse_json(std::string_view text);

/// The same, with a discarded value for both.
nlohmann::ordered_json parse_json_or_discard(std::string_view text);

}  // namespace verlcpp::data
