#pragma once

#include <memory>

#include "cuda/backend.h"
#include "parallel/communicator.h"

namespace verlcpp::cuda {

/// Movement between device buffers of ranks that are threads of one process: on one GPU that they
/// share, or on several. The hosts of the ranks meet for every call, their GPUs only by events.
/// `host` is the group's communicator of host memory; both arguments and `status` outlive it.
std::unique_ptr<parallel::Communicator> make_peer_communicator(CudaBackend& backend,
                                                               parallel::Communicator& host,
                                                               parallel::RankStatus& status);

/// Lets this GPU read the memory of GPUs 0..devices-1 where the machine can; without, copies go
/// through the host. Whether it reads them all.
bool enable_peer_access(int device, int devices);

}  // namespace verlcpp::cuda
