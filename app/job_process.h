#pragma once

#include <optional>
#include <string>
#include <vector>

namespace verlcpp::app {

/// How a job of a sweep ended.
struct JobEnd {
  int code = 0;       // of the process; 128 + n where signal n ended it
  std::string error;  // its last error line, or the signal; "" when it ended with 0
  double seconds = 0;
};

/// From here on SIGTERM and SIGINT go to the job that runs, and stop_signal() knows the first.
void pass_on_stop_signals();
/// 0 before.
int stop_signal();

/// Runs this executable as a process of its own and waits for its end. What it says goes where this
/// process's own words go and, with a `log_file`, to the end of that. It ends when this process
/// does. Nothing when a stop was asked for before it began. DeviceError when it cannot be started.
std::optional<JobEnd> run_job_process(const std::vector<std::string>& arguments,
                                      const std::string& log_file);

}  // namespace verlcpp::app
