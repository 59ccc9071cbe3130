#pragma once

#include <exception>

namespace verlcpp::app {

/// Says on stderr what failed, in one message, and returns the exit code for it: an Error's own,
/// 3 for the machine (memory, files, threads, streams), 1 for anything else, a bug of ours.
int report_failure(const std::exception_ptr& failure);

/// The end of a process one of whose ranks does not come back: says what failed and leaves with its
/// exit code within two seconds, without destructors or exit handlers. A thread that is stuck can
/// neither be joined nor ended from outside, and as long as it runs the objects it refers to may
/// not be destroyed: no return to main is possible. It may be stuck in a write to stdout that
/// nobody reads and hold the locks of the streams and the loggers, so the message goes past them
/// and nothing is flushed: every line was when it was written. Checkpoints are written aside and
/// renamed last, so what is cut off here is never taken for a whole one.
[[noreturn]] void end_process(const std::exception_ptr& failure);

}  // namespace verlcpp::app
