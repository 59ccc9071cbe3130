#pragma once

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

namespace verlcpp::train {

/// Says on rank 0, as soon as a stop is asked for, what becomes of work that is not interrupted (an
/// update, a save): the ranks themselves look only when it is done. A thread that looks twenty times a
/// second.
class StopNotice {
 public:
  explicit StopNotice(const std::atomic<bool>& stop);
  ~StopNotice();
  StopNotice(const StopNotice&) = delete;
  StopNotice& operator=(const StopNotice&) = delete;

  /// What a stop means from now on; "" while the ranks will say it themselves. Said once.
  void set(const std::string& message);

 private:
  void watch();

  const std::atomic<bool>& stop_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::string message_;
  bool ended_ = false;
  std::jthread thread_;  // last: it uses all of the above
};

}  // namespace verlcpp::train
