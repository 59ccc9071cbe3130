#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "options.h"
#include "parallel/communicator.h"
#include "tensor/backend.h"

namespace verlcpp::bench {

/// Times what all ranks do together: report.h's measure for a rank among others, which all call it
/// with the same options.
class RankTimer {
 public:
  /// The arguments outlive it.
  RankTimer(const Options& options, Backend& backend, const parallel::RankCommunicators& comm)
      : options_(options), backend_(backend), comm_(comm) {}

  /// Seconds of one `body`, a sample each; those of the slowest rank, so the same on all. A sample
  /// runs as many of them as last options.sample_milliseconds, 200 at most: fewer than the launches
  /// that a stream holds before the host waits for the device.
  std::vector<double> samples(const std::function<void()>& body);

 private:
  double timed(int64_t times, const std::function<void()>& body);
  /// The largest of what the ranks give; a collective.
  double slowest(double mine) const;

  const Options& options_;
  Backend& backend_;
  const parallel::RankCommunicators& comm_;
};

}  // namespace verlcpp::bench
