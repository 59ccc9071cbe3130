#pragma once

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "parallel/communicator.h"
#include "parallel/topology.h"
#include "tensor/backend.h"

namespace verlcpp::parallel {

/// One rank's device and the communicators that move its tensors.
struct RankDevice {
  std::unique_ptr<Backend> backend;
  std::vector<std::unique_ptr<Communicator>> owned;  // those of `comm` that the host's do not serve
  RankCommunicators comm;
};

/// Called by all ranks of a run, each on its thread, with the communicators of host memory.
using MakeDevice = std::function<RankDevice(const Topology&, const RankCommunicators& host)>;

/// A device whose memory is the host's.
inline RankDevice host_device(std::unique_ptr<Backend> backend, const RankCommunicators& host) {
  return {std::move(backend), {}, host};
}

}  // namespace verlcpp::parallel
