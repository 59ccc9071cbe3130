#pragma once

#include <filesystem>
#include <functional>
#include <system_error>

namespace verlcpp::train {

/// Removes a file, or a folder and all below it; nothing there is no failure. `beat`, if any, is
/// called before each file: a large one may take seconds. `failed` says why it ended early.
void remove_tree(const std::filesystem::path& path, const std::function<void()>& beat,
                 std::error_code& failed);

}  // namespace verlcpp::train
