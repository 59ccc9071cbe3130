#include "train/stop_notice.h"

#include <chrono>
#include <cstring>

#include "base/log.h"

namespace verlcpp::train {

std::string signal_name(int signal) {
  const char* name = ::sigabbrev_np(signal);
  return name == nullptr ? "signal " + std::to_string(signal) : std::string("SIG") + name;
}

StopNotice::StopNotice(const std::atomic<int>& signal)
    : signal_(signal), thread_([this] { watch(); }) {}

StopNotice::~StopNotice() {
  {
    std::lock_guard lock(mutex_);
    ended_ = true;
  }
  changed_.notify_one();
}

void StopNotice::set(const std::string& message) {
  std::lock_guard lock(mutex_);
  message_ = message;
}

void StopNotice::watch() {
  std::unique_lock lock(mutex_);
  while (!ended_) {
    const int signal = signal_.load();
    if (signal != 0 && !message_.empty()) {
      log::info(signal_name(signal) + ": " + message_);
      return;
    }
    changed_.wait_for(lock, std::chrono::milliseconds(50), [this] { return ended_; });
  }
}

}  // namespace verlcpp::train
