#pragma once

#include <memory>
#include <vector>

#include "cuda/backend.h"
#include "parallel/communicator.h"
#include "parallel/topology.h"

namespace verlcpp::cuda {

/// NCCL communicators of one rank: `cp`, `grad`, `tp` and `world`, in this order; world is
/// initialised, the others are split from it. Without `with_cp` the first is null. Each rank has a
/// GPU of its own. Calls never block the host for other ranks; a rank whose host waits for the GPU
/// says in its status which collective holds it up. After an abort of the host's group the rank
/// aborts its communicators and throws. DeviceError when NCCL cannot be loaded or fails. A
/// collective of all ranks.
std::vector<std::unique_ptr<parallel::Communicator>> make_nccl_communicators(
    CudaBackend& backend, const parallel::Topology& topology,
    const parallel::RankCommunicators& host, bool with_cp);

}  // namespace verlcpp::cuda
