#pragma once

#include <atomic>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <string>
#include <thread>

namespace verlcpp::train {

/// "SIGTERM", for messages.
std::string signal_name(int signal);

/// Thrown on a rank that sees, while the run starts, that a stop was asked for: nothing has been
/// changed yet, so nothing needs to be agreed or finished. Not an Error: no failure.
struct StoppedAtStart : std::exception {
  const char* what() const noexcept override { return "stopped before training began"; }
};

/// Says on rank 0, as soon as a stop is asked for, what becomes of work that is not interrupted (an
/// update, a save): the ranks themselves look only when it is done. A thread that looks twenty
/// times a second.
class StopNotice {
 public:
  /// `signal`: the number of the one that asked for it, 0 before.
  explicit StopNotice(const std::atomic<int>& signal);
  ~StopNotice();
  StopNotice(const StopNotice&) = delete;
  StopNotice& operator=(const StopNotice&) = delete;

  /// What a stop means from now on; "" while the ranks will say it themselves. Said once, after the
  /// signal's name.
  void set(const std::string& message);

 private:
  void watch();

  const std::atomic<int>& signal_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::string message_;
  bool ended_ = false;
  std::jthread thread_;  // last: it uses all of the above
};

}  // namespace verlcpp::train
