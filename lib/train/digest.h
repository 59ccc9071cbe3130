#pragma once

#include <functional>
#include <string>

namespace verlcpp::train {

/// Hexadecimal SHA-256.
std::string sha256(const std::string& bytes);
/// The same of a file's bytes; `beat` is called after each block of 1 MiB. DataError names a file
/// that cannot be read.
std::string sha256_of_file(const std::string& path, const std::function<void()>& beat = {});

/// SHA-256 of what a model's config.json says, however it is written: keys in any order, 1e4 or
/// 10000, and without what differs between the exports of one model (the dtype, the version of what
/// wrote it, where it lay). Text that is not JSON counts as it is.
std::string model_digest(const std::string& config_json);

}  // namespace verlcpp::train
