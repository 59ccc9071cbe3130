#pragma once

#include <functional>
#include <utility>

namespace verlcpp {

/// Host code that a backend was asked to run. Ops enqueued after wait(), or after the destructor,
/// start after it; those enqueued before run beside it. The host itself never waits.
class HostWork {
 public:
  HostWork() = default;  // over
  explicit HostWork(std::function<void()> wait) : wait_(std::move(wait)) {}
  HostWork(HostWork&& other) noexcept : wait_(std::exchange(other.wait_, nullptr)) {}
  HostWork& operator=(HostWork&& other) noexcept {
    std::swap(wait_, other.wait_);
    return *this;
  }
  ~HostWork() {
    try {
      wait();
    } catch (...) {  // NOLINT: the device has failed, which the next call to it says
    }
  }

  void wait() {
    if (wait_) std::exchange(wait_, nullptr)();
  }

 private:
  std::function<void()> wait_;
};

}  // namespace verlcpp
