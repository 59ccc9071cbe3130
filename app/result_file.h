#pragma once

#include <string>

namespace verlcpp::app {

/// Before the work whose result is to be written: throws ConfigError, naming `flag`, for a path
/// that takes no file. An older result stays until there is a new one, and nothing new stays
/// without one.
void check_writable(const std::string& flag, const std::string& path);

/// Writes `json` and a newline to `path`: aside (path.tmp, or path.tmp2 and so on where that
/// is there already), synced, renamed, so that an older result stays until the new one is whole.
/// Through a link, what the link names is written, there yet or not. DeviceError with path, bytes
/// and reason.
void write_result(const std::string& path, const std::string& json);

}  // namespace verlcpp::app
