#include "train/stop_notice.h"

#include <chrono>

#include "base/log.h"

namespace verlcpp::train {

StopNotice::StopNotice(const std::atomic<bool>& stop) : stop_(stop), thread_([this] { watch(); }) {}

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
    if (stop_.load() && !message_.empty()) {
      log::info(message_);
      return;
    }
    changed_.wait_for(lock, std::chrono::milliseconds(50), [this] { return ended_; });
  }
}

}  // namespace verlcpp::train
