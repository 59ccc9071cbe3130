#pragma once

#include <functional>
#include <string>

namespace verlcpp::train {

/// Hexadecimal SHA-256.
std::string sha256(const std::string& bytes);
/// The same of a file's bytes; `beat` is called after each block of 1 MiB. DataError names a file
/// that cannot be read.
std::string sha256_of_file(const std::string& path, const std::function<void()>& beat = {});

}  // namespace verlcpp::train
