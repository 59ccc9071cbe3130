#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "parallel/rank_status.h"
#include "parallel/stop_agreement.h"
#include "tensor/backend.h"

namespace verlcpp::parallel {

enum class ReduceOp { kSum, kMax, kMin };

/// A pending transfer. It started after all earlier compute-stream work and keeps its tensors
/// alive; `wait` makes the compute stream wait for it (on the CPU: the calling thread; where ranks
/// share a GPU the thread also waits for its peers to have asked for the same). Wait once, and for
/// the Works of one communicator in the order of their calls.
class Work {
 public:
  Work() = default;
  explicit Work(std::function<void()> finish) : finish_(std::move(finish)) {}
  void wait() {
    if (finish_) finish_();
    finish_ = nullptr;
  }

 private:
  std::function<void()> finish_;
};

struct Transfer {
  int peer;
  Tensor tensor;
};

class ThreadHub;

/// Movement among the ranks of one group. All members issue the same calls in the same order.
/// A failure or an abort throws DeviceError on every member that waits.
class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// Where the group's ranks meet in host memory.
  virtual std::shared_ptr<ThreadHub> hub() const = 0;

  /// In place; the result is identical on all members. Within one process sums go in rank order.
  virtual Work all_reduce(const Tensor& x, ReduceOp op) = 0;
  /// out = my 1/size slice (flat, rank order) of the sum of `in`; in.numel() == out.numel() * size.
  virtual Work reduce_scatter(const Tensor& out, const Tensor& in) = 0;
  /// out = all members' `in`, flat, in rank order.
  virtual Work all_gather(const Tensor& out, const Tensor& in) = 0;
  virtual Work broadcast(const Tensor& x, int root) = 0;
  /// One grouped set of sends and receives. Between a pair, sends match receives in issue order; a
  /// rank may send to itself.
  virtual Work exchange(std::span<const Transfer> sends, std::span<const Transfer> receives) = 0;
  /// Host bytes of every member, in rank order. Blocks.
  virtual std::vector<std::vector<std::byte>> all_gather_bytes(std::span<const std::byte> mine) = 0;
  virtual void barrier() = 0;
  /// Wakes every waiting member with DeviceError(reason); later calls throw too.
  virtual void abort(const std::string& reason) = 0;
};

/// One rank's communicators. `cp` (send/recv only) and `grad` (collectives) span its DPxCP pool, in
/// pool order; `tp` spans the ranks that share its pool coordinate, in TP order; `world` spans all.
/// `status` is where the rank says what it does; the stop points agree with all ranks of the world,
/// and with the ranks of `tp`, on where a stop that was asked for takes place.
struct RankCommunicators {
  Communicator& cp;
  Communicator& grad;
  Communicator& tp;
  Communicator& world;
  RankStatus& status;
  StopPoint world_stop, tp_stop;
};

}  // namespace verlcpp::parallel
