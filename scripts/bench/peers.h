#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "parallel/communicator.h"
#include "tensor/backend.h"

// What only ranks on GPUs can do; a build without CUDA refuses it (peers_absent.cpp). Nothing here
// waits for the device: the work is enqueued on the backend's compute stream.

namespace verlcpp::bench {

/// GPUs of this machine. DeviceError when there is none.
int64_t gpu_count();

/// Why not each of GPUs 0..gpus-1 can read the memory of the others; "" when all can.
std::string why_no_peer_reads(int64_t gpus);

/// The communicator of copies between device buffers, whether or not ranks share a GPU; after it is
/// made, the backend's GPU reads the memory of GPUs 0..gpus-1 where the machine can. To be called
/// by the rank's thread.
std::unique_ptr<parallel::Communicator> make_peers(Backend& backend, int64_t gpus,
                                                   parallel::Communicator& host,
                                                   parallel::RankStatus& status);

/// to = from, which lies on `from_gpu`, by cudaMemcpyPeerAsync.
void copy_from_peer(Backend& backend, const Tensor& to, const Tensor& from, int64_t from_gpu);

/// to = from by a kernel of `blocks` blocks on the backend's GPU, which must be able to read
/// `from`. Whole 16 bytes, aligned.
void read_from_peer(Backend& backend, const Tensor& to, const Tensor& from, int64_t blocks);

}  // namespace verlcpp::bench
