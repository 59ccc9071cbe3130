#pragma once

#include <memory>
#include <string>

#include "parallel/communicator.h"

namespace verlcpp::parallel {

/// A group of ranks that are threads of one process and whose tensors lie in host memory. Gives
/// real multi-rank runs without a device: every layout is a unit test.
class ThreadWorld {
 public:
  /// `name` is a literal, the group's name in messages.
  explicit ThreadWorld(int size, const char* name = "group");
  ~ThreadWorld();
  /// The communicator of one rank; to be used by one thread. It keeps the group's state alive, and
  /// tells `status` (may be null; outlives it and its Works) which collective the rank is in.
  std::unique_ptr<Communicator> communicator(int rank, RankStatus* status = nullptr) const;
  /// Wakes every waiting rank with DeviceError(reason). Callable from any thread.
  void abort(const std::string& reason) const;

  struct Hub;

 private:
  std::shared_ptr<Hub> hub_;
};

}  // namespace verlcpp::parallel
