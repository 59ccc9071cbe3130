#pragma once

#include <exception>

namespace verlcpp::app {

/// Says on stderr what failed, in one message, and returns the exit code for it: an Error's own,
/// 3 for the machine (memory, files, threads, streams), 1 for anything else, a bug of ours.
int report_failure(const std::exception_ptr& failure);

/// Ends main with the exit code of report_failure(). After a failure of the machine (3) the process
/// leaves without exit handlers, its streams flushed: libraries join threads of their own in theirs
/// (OpenBLAS does), and where memory or threads have run out such a thread may never come. For
/// other codes it returns, so that what runs at exit (leak checks) does.
int end_main(int exit_code);

/// The end of a process one of whose ranks does not come back: says what failed and leaves with its
/// exit code within two seconds, without destructors or exit handlers. A thread that is stuck can
/// neither be joined nor ended from outside, and as long as it runs the objects it refers to may
/// not be destroyed: no return to main is possible. It may be stuck in a write to stdout that
/// nobody reads and hold the locks of the streams and the loggers, so the message goes past them
/// and nothing is flushed: every line was when it was written. Checkpoints are written aside and
/// renamed last, so what is cut off here is never taken for a whole one.
[[noreturn]] void end_process(const std::exception_ptr& failure);

}  // namespace verlcpp::app
