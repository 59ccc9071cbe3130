#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace verlcpp::jinja {

/// str.split(separator, limit) and str.rsplit; a negative limit is none. `separator` is not empty.
std::vector<std::string> split_at(std::string_view text, std::string_view separator, int64_t limit,
                                  bool from_right);
/// str.split(None, limit) and str.rsplit: at runs of white space.
std::vector<std::string> split_space(std::string_view text, int64_t limit, bool from_right);
/// str.splitlines.
std::vector<std::string> split_lines(std::string_view text, bool keep_ends);
/// str.replace; a negative `limit` replaces everything.
std::string replaced(std::string_view text, std::string_view old, std::string_view with,
                     int64_t limit);
/// `text` filled up to `width` code points with `fill`. `side`: -1 text to the left, 0 in the
/// middle, 1 to the right.
std::string padded(const std::string& text, int64_t width, const std::string& fill, int side);
/// str.capitalize.
std::string capitalized(const std::string& text);
/// str.isupper or str.islower.
bool has_case(std::string_view text, bool upper);

}  // namespace verlcpp::jinja
