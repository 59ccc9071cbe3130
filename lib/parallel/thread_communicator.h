#pragma once

#include <memory>

#include "parallel/communicator.h"
#include "parallel/thread_hub.h"

namespace verlcpp::parallel {

/// The communicator of one rank of a group of threads whose tensors lie in host memory; to be used
/// by that thread. Gives real multi-rank runs without a device: every layout is a unit test. Tells
/// `status` (may be null; outlives it and its Works) which collective the rank is in.
std::unique_ptr<Communicator> make_thread_communicator(std::shared_ptr<ThreadHub> hub, int rank,
                                                       RankStatus* status);

}  // namespace verlcpp::parallel
