#include "base/error.h"
#include "cuda/runtime.h"
#include "peers.h"

namespace verlcpp::bench {
namespace {

constexpr const char* kNoCuda = "a build without CUDA has no ranks on GPUs";

}  // namespace

int64_t gpu_count() {
  cuda::make_backend(0);  // says that this build has none
  return 0;
}

std::string why_no_peer_reads(int64_t) { return kNoCuda; }

std::unique_ptr<parallel::Communicator> make_peers(Backend&, int64_t, parallel::Communicator&,
                                                   parallel::RankStatus&) {
  expects(false, kNoCuda);
  return nullptr;
}

void copy_from_peer(Backend&, const Tensor&, const Tensor&, int64_t) { expects(false, kNoCuda); }

void read_from_peer(Backend&, const Tensor&, const Tensor&, int64_t) { expects(false, kNoCuda); }

}  // namespace verlcpp::bench
