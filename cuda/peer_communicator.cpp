#include "cuda/peer_communicator.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/error.h"
#include "cuda/check.h"
#include "cuda/event.h"
#include "cuda/kernels.h"
#include "parallel/thread_hub.h"

namespace verlcpp::cuda {
namespace {

using parallel::Communicator;
using parallel::InCollective;
using parallel::ReduceOp;
using parallel::ThreadHub;
using parallel::Transfer;
using parallel::Work;

/// A tensor that others may read once `ready` is reached.
struct Offer {
  Tensor tensor;
  Event ready;
};

// Lanes of the hub: offers go to who reads, the events of their reads come back.
constexpr int kOffers = 0, kReads = 1;

Reduction reduction(ReduceOp op) {
  if (op == ReduceOp::kSum) return Reduction::kSum;
  return op == ReduceOp::kMax ? Reduction::kMax : Reduction::kMin;
}

// A rank's tensor may change only when all who read it have done so: every call ends with the
// events of the reads, and Work::wait makes the compute stream wait for them.
class PeerCommunicator final : public Communicator {
 public:
  PeerCommunicator(CudaBackend& backend, Communicator& host, parallel::RankStatus& status)
      : backend_(backend), host_(host), hub_(host.hub()), status_(status) {}

  int rank() const override { return host_.rank(); }
  int size() const override { return host_.size(); }
  std::shared_ptr<ThreadHub> hub() const override { return hub_; }

  // Every rank reduces one slice in place, then takes the slices of the others.
  Work all_reduce(const Tensor& x, ReduceOp op) override {
    if (size() == 1) return {};
    const InCollective here(&status_, hub_->name(), "all_reduce");
    const std::vector<Offer> offers = offer(x);
    const int64_t first = slice_begin(x, rank()), count = slice_begin(x, rank() + 1) - first;
    const Tensor parts = reduce(offers, first, count, at(x, first), reduction(op));
    for (const Event& reduced : swap(Event(stream()))) reduced.before(stream());
    for (int peer = 0; peer < size(); ++peer) {
      if (peer == rank()) continue;
      const int64_t begin = slice_begin(x, peer), n = slice_begin(x, peer + 1) - begin;
      fetch(at(x, begin), at(offers[static_cast<size_t>(peer)].tensor, begin),
            n * size_of(x.dtype()));
    }
    return finish(offers, {parts});
  }

  Work reduce_scatter(const Tensor& out, const Tensor& in) override {
    expects(in.numel() == out.numel() * size(), "reduce_scatter sizes do not match");
    if (size() == 1) return copy(out, in);
    const InCollective here(&status_, hub_->name(), "reduce_scatter");
    const std::vector<Offer> offers = offer(in);
    const Tensor parts =
        reduce(offers, out.numel() * rank(), out.numel(), out.data(), Reduction::kSum);
    return finish(offers, {parts, out});
  }

  Work all_gather(const Tensor& out, const Tensor& in) override {
    expects(out.numel() == in.numel() * size(), "all_gather sizes do not match");
    if (size() == 1) return copy(out, in);
    const InCollective here(&status_, hub_->name(), "all_gather");
    const std::vector<Offer> offers = offer(in);
    gather(out, offers, 0, in.numel());
    return finish(offers, {out});
  }

  Work broadcast(const Tensor& x, int root) override {
    if (size() == 1) return {};
    const InCollective here(&status_, hub_->name(), "broadcast");
    const std::vector<Offer> offers = offer(x);
    const Offer& from = offers.at(static_cast<size_t>(root));
    if (rank() != root) {
      from.ready.before(stream());
      fetch(x.data(), from.tensor.data(), x.bytes());
    }
    return finish(offers, {});
  }

  // Copies are enqueued here, as soon as the peers have offered, and run beside the computation.
  Work exchange(std::span<const Transfer> sends, std::span<const Transfer> receives) override {
    const InCollective here(&status_, hub_->name(), "exchange");
    const Event now = enter();
    for (const Transfer& send : sends) {
      hub_->post(rank(), send.peer, kOffers, std::make_shared<Offer>(Offer{send.tensor, now}));
    }
    for (const Transfer& receive : receives) {
      const auto from =
          std::static_pointer_cast<Offer>(hub_->take(receive.peer, rank(), kOffers, &status_));
      expects(from->tensor.bytes() == receive.tensor.bytes(),
              "a message has another size than its receiver expects");
      from->ready.before(stream());
      fetch(receive.tensor.data(), from->tensor.data(), receive.tensor.bytes());
    }
    const Event received(stream());
    for (const Transfer& receive : receives) {
      hub_->post(rank(), receive.peer, kReads, std::make_shared<Event>(received));
    }
    return Work([this, received, sent = std::vector<Transfer>(sends.begin(), sends.end()),
                 into = std::vector<Transfer>(receives.begin(), receives.end())] {
      const InCollective waited(&status_, hub_->name(), "exchange");
      received.before(backend_.stream());
      for (const Transfer& send : sent) {
        std::static_pointer_cast<Event>(hub_->take(send.peer, rank(), kReads, &status_))
            ->before(backend_.stream());
      }
    });
  }

  std::vector<std::vector<std::byte>> all_gather_bytes(std::span<const std::byte> mine) override {
    return host_.all_gather_bytes(mine);
  }
  void barrier() override { host_.barrier(); }
  void abort(const std::string& reason) override { host_.abort(reason); }

 private:
  cudaStream_t stream() const { return backend_.comm_stream(); }

  /// The comm stream goes on after all that the compute stream holds.
  Event enter() const {
    const Event now(backend_.stream());
    now.before(stream());
    return now;
  }

  template <class T>
  std::vector<T> swap(T mine) const {
    std::vector<T> all;
    for (const auto& parcel :
         hub_->swap(host_.rank(), std::make_shared<T>(std::move(mine)), &status_)) {
      all.push_back(*std::static_pointer_cast<T>(parcel));
    }
    return all;
  }

  std::vector<Offer> offer(const Tensor& x) const {
    std::vector<Offer> offers = swap(Offer{x, enter()});
    for (const Offer& theirs : offers) {
      expects(theirs.tensor.bytes() == x.bytes(),
              "ranks of a group gave tensors of different sizes to one collective");
    }
    return offers;
  }

  int64_t slice_begin(const Tensor& x, int rank) const { return x.numel() * rank / size(); }

  static std::byte* at(const Tensor& x, int64_t element) {
    return x.data() + element * size_of(x.dtype());
  }

  void fetch(std::byte* to, const std::byte* from, int64_t bytes) const {
    if (bytes == 0 || to == from) return;  // a part may lie in its place already
    check(cudaMemcpyAsync(to, from, static_cast<size_t>(bytes), cudaMemcpyDefault, stream()),
          "a copy between ranks");
  }

  /// out = elements [first, first + count) of every offer.
  void gather(const Tensor& out, const std::vector<Offer>& offers, int64_t first,
              int64_t count) const {
    for (size_t peer = 0; peer < offers.size(); ++peer) {
      offers[peer].ready.before(stream());
      fetch(at(out, static_cast<int64_t>(peer) * count), at(offers[peer].tensor, first),
            count * size_of(out.dtype()));
    }
  }

  /// out = reduction of elements [first, first + count) of every offer, piece by piece through a
  /// buffer of at most kPeerReduceBytes, which is handed back to be kept until the end.
  Tensor reduce(const std::vector<Offer>& offers, int64_t first, int64_t count, std::byte* out,
                Reduction op) const {
    const DType dtype = offers.front().tensor.dtype();
    const int64_t ranks = host_.size();
    const int64_t most = std::max<int64_t>(1, kPeerReduceBytes / (size_of(dtype) * ranks));
    const int64_t piece = std::min(count, most);
    const Tensor parts = backend_.allocate(dtype, {piece * ranks}, MemoryTag::kComm);
    for (int64_t done = 0; done < count; done += piece) {
      const int64_t n = std::min(piece, count - done);
      gather(parts, offers, first + done, n);
      reduce_parts(stream(), dtype, ranks, n, out + done * size_of(dtype), parts.data(), op);
    }
    return parts;
  }

  /// Tells the others that this rank has read their tensors. `kept` and what this rank has offered
  /// are used until then; each owner keeps its own.
  Work finish(const std::vector<Offer>& offers, std::vector<Tensor> kept) const {
    kept.push_back(offers[static_cast<size_t>(rank())].tensor);
    return Work(
        [stream = backend_.stream(), reads = swap(Event(this->stream())), kept = std::move(kept)] {
          for (const Event& read : reads) read.before(stream);
        });
  }

  Work copy(const Tensor& out, const Tensor& in) const {
    backend_.copy(out, in);
    return {};
  }

  CudaBackend& backend_;
  Communicator& host_;
  std::shared_ptr<ThreadHub> hub_;
  parallel::RankStatus& status_;
};

}  // namespace

std::unique_ptr<Communicator> make_peer_communicator(CudaBackend& backend, Communicator& host,
                                                     parallel::RankStatus& status) {
  return std::make_unique<PeerCommunicator>(backend, host, status);
}

bool enable_peer_access(int device, int devices) {
  bool all = true;
  for (int other = 0; other < devices; ++other) {
    int possible = 0;
    if (other == device) continue;
    check(cudaDeviceCanAccessPeer(&possible, device, other), "cudaDeviceCanAccessPeer");
    if (possible == 0) all = false;
    if (possible == 0) continue;
    const cudaError_t status = cudaDeviceEnablePeerAccess(other, 0);
    if (status == cudaErrorPeerAccessAlreadyEnabled) {
      cudaGetLastError();  // another rank of this GPU did it
    } else {
      check(status, "cudaDeviceEnablePeerAccess");
    }
  }
  return all;
}

}  // namespace verlcpp::cuda
