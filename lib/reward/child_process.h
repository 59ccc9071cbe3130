#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace verlcpp::reward {

/// A program that runs beside this one, with pipes for its three streams. It has a process group of
/// its own, so that a Ctrl-C in the terminal does not reach it, and the kernel kills it when the
/// thread that started it ends, so that it does not outlive this process however that ends.
class ChildProcess {
 public:
  /// Starts `arguments[0]`, looked up in PATH when it has no slash, with this environment and
  /// folder. DeviceError when no process or pipe can be had, DataError (with `about` in front) when
  /// the program cannot be executed.
  ChildProcess(const std::vector<std::string>& arguments, const std::string& about);
  /// Ends it: an end of its input, a moment to leave, then SIGKILL for all of its group.
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  enum class Stream { kOut, kErr };
  /// Waits up to `limit` until it writes something, or takes something if `wants_write`.
  void wait(std::chrono::milliseconds limit, bool wants_write) const;
  /// What can be read without waiting; "" for nothing yet, nothing at all at the end of the stream.
  std::optional<std::string> read(Stream stream);
  /// Writes what its input takes without waiting; returns how much. 0 once nobody reads it.
  size_t write(std::string_view bytes);
  /// SIGKILL to all of its group, and waits for it.
  void kill();
  /// How it ended ("exit code 1", "signal 9 (Killed)"), after waiting for its end up to `limit`;
  /// nothing while it runs.
  std::optional<std::string> ended(std::chrono::milliseconds limit);

 private:
  void close_all();

  pid_t pid_ = -1;
  int in_ = -1, out_ = -1, err_ = -1;
  std::optional<int> status_;  // of waitpid
};

}  // namespace verlcpp::reward
