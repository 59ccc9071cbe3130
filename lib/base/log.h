#pragma once

#include <string_view>

namespace verlcpp::log {

/// Plain lines: info to stdout; warnings ("warning: ...") and errors ("error: ...") to stderr.
/// Safe to call from every rank's thread.
void info(std::string_view line);
void warning(std::string_view line);
void error(std::string_view line);

}  // namespace verlcpp::log
