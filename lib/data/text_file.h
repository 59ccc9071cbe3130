#pragma once

#include <string>

namespace verlcpp::data {

/// The whole file. DataError naming `path` when it cannot be read.
std::string read_text_file(const std::string& path);

}  // namespace verlcpp::data
