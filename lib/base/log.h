#pragma once

#include <string_view>

namespace verlcpp::log {

/// Plain lines: info to stdout; warnings ("warning: ...") and errors ("error: ...") to stderr.
/// Safe to call from every rank's thread.
void info(std::string_view line);
void warning(std::string_view line);
void error(std::string_view line);

/// From here on info goes to stderr too ("info: ..."): stdout is kept for a result that a program
/// reads.
void keep_stdout_clean();

}  // namespace verlcpp::log
