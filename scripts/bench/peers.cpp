#include "peers.h"

#include <cuda_runtime_api.h>

#include "base/error.h"
#include "cuda/backend.h"
#include "cuda/check.h"
#include "cuda/peer_communicator.h"
#include "peer_read.h"

namespace verlcpp::bench {
namespace {

cuda::CudaBackend& on_gpu(Backend& backend) { return dynamic_cast<cuda::CudaBackend&>(backend); }

}  // namespace

int64_t gpu_count() {
  int count = 0;
  cuda::check(cudaGetDeviceCount(&count), "cudaGetDeviceCount");
  return count;
}

std::string why_no_peer_reads(int64_t gpus) {
  for (int reader = 0; reader < gpus; ++reader) {
    for (int owner = 0; owner < gpus; ++owner) {
      if (reader == owner) continue;
      int possible = 0;
      cuda::check(cudaDeviceCanAccessPeer(&possible, reader, owner), "cudaDeviceCanAccessPeer");
      if (possible != 0) continue;
      return "GPU " + std::to_string(reader) + " cannot read the memory of GPU " +
             std::to_string(owner);
    }
  }
  return "";
}

std::unique_ptr<parallel::Communicator> make_peers(Backend& backend, int64_t gpus,
                                                   parallel::Communicator& host,
                                                   parallel::RankStatus& status) {
  cuda::CudaBackend& gpu = on_gpu(backend);
  cuda::enable_peer_access(gpu.device(), static_cast<int>(gpus));
  return cuda::make_peer_communicator(gpu, host, status);
}

void copy_from_peer(Backend& backend, const Tensor& to, const Tensor& from, int64_t from_gpu) {
  expects(to.bytes() == from.bytes(), "a copy of another size");
  const cuda::CudaBackend& gpu = on_gpu(backend);
  cuda::check(cudaMemcpyPeerAsync(to.data(), gpu.device(), from.data(), static_cast<int>(from_gpu),
                                  static_cast<size_t>(to.bytes()), gpu.stream()),
              "cudaMemcpyPeerAsync");
}

void read_from_peer(Backend& backend, const Tensor& to, const Tensor& from, int64_t blocks) {
  expects(to.bytes() == from.bytes(), "a copy of another size");
  peer_read(on_gpu(backend).stream(), to.data(), from.data(), to.bytes(), blocks);
}

}  // namespace verlcpp::bench
