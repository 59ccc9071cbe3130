#pragma once

#include <string_view>

namespace verlcpp::log {

/// Plain lines: debug ("debug: ...", to stderr) where the environment says VERLCPP_LOG=debug; info
/// to stdout; warnings ("warning: ...") and errors ("error: ...") to stderr. Safe to call from
/// every rank's thread.
void debug(std::string_view line);
void info(std::string_view line);
void warning(std::string_view line);
void error(std::string_view line);

/// An error line for the end of a process whose threads may stand still inside of any of the above:
/// straight to stderr, without a lock. What stderr does not take within two seconds is dropped.
void last_error(std::string_view line);

/// From here on info goes to stderr too ("info: ..."): stdout is kept for a result that a program
/// reads.
void keep_stdout_clean();

}  // namespace verlcpp::log
