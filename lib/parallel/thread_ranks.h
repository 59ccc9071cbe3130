#pragma once

#include <functional>

#include "parallel/communicator.h"
#include "parallel/topology.h"

namespace verlcpp::parallel {

/// Runs `body(topology, communicators)` on sizes.world threads, one per rank. Returns when all are
/// done; the first exception aborts the others and is rethrown. ConfigError when the world is not
/// divisible by the axes.
void run_thread_ranks(const AxisSizes& sizes,
                      const std::function<void(const Topology&, RankCommunicators)>& body);

}  // namespace verlcpp::parallel
