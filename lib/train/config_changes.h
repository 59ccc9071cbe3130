#pragma once

#include <string>

namespace verlcpp::train {

/// Keys whose values differ between a configuration saved as YAML in `saved_file` and `yaml`:
/// "a.b: 1 -> 2, ...", the first few and a count of the rest; "" when nothing differs or the file
/// is not there.
std::string changed_keys(const std::string& saved_file, const std::string& yaml);

}  // namespace verlcpp::train
