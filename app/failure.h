#pragma once

#include <exception>

namespace verlcpp::app {

/// Says on stderr what failed, in one message, and returns the exit code for it: an Error's own,
/// 3 for the machine (memory, files, threads, streams), 1 for anything else, a bug of ours.
int report_failure(const std::exception_ptr& failure);

/// The end of a process one of whose ranks does not come back: says what failed and leaves with its
/// exit code at once, without destructors or exit handlers. A thread that is stuck can neither be
/// joined nor ended from outside, and as long as it runs the objects it refers to may not be
/// destroyed: no return to main is possible. All output has been flushed line by line as it was
/// written; flushing more here could wait for a lock that the stuck thread holds. Checkpoints are
/// written aside and renamed last, so what is cut off here is never taken for a whole one.
[[noreturn]] void end_process(const std::exception_ptr& failure);

}  // namespace verlcpp::app
