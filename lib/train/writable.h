#pragma once

#include <filesystem>
#include <string>

namespace verlcpp::train {

// Found out by trying: what access(2) says of a superuser's rights, or of /proc, is not what
// open(2) does. Nothing is left behind, and no file is changed.

/// Why no file can be made in `folder`, which need not exist yet; "" when one can be. A folder that
/// is missing is taken to be as the one above it that is there.
std::string unwritable_reason(const std::string& folder);

/// Why `file` can neither be made nor, where it is there, be written to; "" when it can be.
std::string unwritable_file_reason(const std::filesystem::path& file);

}  // namespace verlcpp::train
