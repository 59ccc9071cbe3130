#pragma once

#include <string>

namespace verlcpp::data {

/// What nlohmann::json says about a bad text, for a message of ours: valid UTF-8, without the
/// library's error number: "line 3, column 7: syntax error while parsing ...". `one_line` is for a
/// text that was one line of a file, whose number the message has: "column 7: ...".
std::string json_reason(const std::string& what, bool one_line);

}  // namespace verlcpp::data
