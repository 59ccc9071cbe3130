#pragma once

#include <functional>
#include <memory>

#include "parallel/communicator.h"
#include "tensor/backend.h"

namespace verlcpp::train {

/// Measures how long a rank computes, as opposed to moving data and waiting for others. The rank
/// uses `communicators()` in place of its own. While the meter runs, the device is synchronized
/// around every transfer, so that nothing overlaps: a measured step is slower than others and its
/// wall time is not to be reported. While it does not run, calls go through unchanged.
class BusyMeter {
 public:
  /// Seconds since some fixed point, read on the rank's thread.
  using Clock = std::function<double()>;

  BusyMeter(Backend& backend, const parallel::RankCommunicators& inner, Clock clock);
  ~BusyMeter();
  BusyMeter(const BusyMeter&) = delete;
  BusyMeter& operator=(const BusyMeter&) = delete;

  /// They live as long as the meter.
  parallel::RankCommunicators communicators();

  void start();
  /// Seconds of computing since start().
  double stop();

  class Metered;

 private:
  void leave_compute();
  void enter_compute();

  Backend& backend_;
  Clock clock_;
  parallel::RankCommunicators inner_;
  std::unique_ptr<parallel::Communicator> cp_, grad_, tp_, world_;
  bool running_ = false;
  double busy_ = 0, since_ = 0;
};

/// For ranks that compute on their own threads: time of this thread on a core, which other ranks on
/// the same core do not lengthen.
double thread_cpu_seconds();
/// For ranks whose thread only feeds a device.
double wall_seconds();

}  // namespace verlcpp::train
