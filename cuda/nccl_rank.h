#pragma once

#include <nccl.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cuda/backend.h"
#include "cuda/event.h"
#include "parallel/communicator.h"

namespace verlcpp::cuda {

/// What one rank's NCCL communicators share: their lifetime, the collectives under way, and the
/// look-out while its host waits for the GPU. Only the rank's own thread touches NCCL, also to
/// abort: communicators are non-blocking, so that no call outlasts a failure of another rank.
class NcclRank {
 public:
  NcclRank(CudaBackend& backend, parallel::Communicator& world, parallel::RankStatus& status);
  ~NcclRank();
  NcclRank(const NcclRank&) = delete;
  NcclRank& operator=(const NcclRank&) = delete;

  ncclComm_t world() const { return communicators_.front(); }
  /// The ranks of world that give the same colour, ordered by key. A collective of world.
  ncclComm_t split(int colour, int key);

  /// Runs `call(stream)` on the comm stream after all compute-stream work. `kept` are used until
  /// then. Names are literals.
  parallel::Work start(ncclComm_t communicator, const char* group, const char* op,
                       std::vector<Tensor> kept,
                       const std::function<ncclResult_t(cudaStream_t)>& call);

 private:
  struct Pending {
    const char* group;
    const char* op;
    std::optional<int64_t> micro_batch;
    Event begun, done;
  };
  /// Waits until a non-blocking call has been taken.
  void settle(ncclComm_t communicator);
  void fail_if_aborted();
  void drop_finished();
  void look();
  void end_wait();
  void abort();
  void close();

  CudaBackend& backend_;
  std::shared_ptr<parallel::ThreadHub> hub_;
  parallel::RankStatus& status_;
  static constexpr size_t kMostCommunicators = 4;  // world, cp, grad, tp
  std::vector<ncclComm_t> communicators_;
  std::deque<Pending> pending_;
  int64_t finished_ = 0;    // collectives so far
  int64_t waits_for_ = -1;  // the collective that the status shows
  const int uncaught_;      // exceptions when it was made
};

}  // namespace verlcpp::cuda
