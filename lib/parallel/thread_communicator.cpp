#include "parallel/thread_communicator.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "base/error.h"

// Nobody ever touches another rank's tensors: a rank publishes a copy, so it may fail and unwind at
// any time.

namespace verlcpp::parallel {
namespace {

using Bytes = std::vector<std::byte>;
using Published = std::vector<std::shared_ptr<const Bytes>>;  // by rank

/// bfloat16 as its bits.
struct BFloat16 {
  uint16_t bits = 0;
  BFloat16() = default;
  /// Rounds to nearest, ties to even; NaN stays NaN.
  explicit BFloat16(double value) {
    const auto f = std::bit_cast<uint32_t>(static_cast<float>(value));
    const bool nan = (f & 0x7fffffffu) > 0x7f800000u;
    bits = static_cast<uint16_t>((f + (nan ? 0x8000u : 0x7fffu + (f >> 16 & 1u))) >> 16);
  }
  explicit operator double() const { return std::bit_cast<float>(uint32_t{bits} << 16); }
};

/// result[i] = reduction over ranks, in rank order, of elements [first, first + count). Floating
/// sums are carried in double.
template <class T>
Bytes reduced(const Published& published, ReduceOp op, size_t first, size_t count) {
  using Wide = std::conditional_t<std::is_integral_v<T>, int64_t, double>;
  std::vector<Wide> wide(count);
  for (size_t rank = 0; rank < published.size(); ++rank) {
    const T* x = reinterpret_cast<const T*>(published[rank]->data()) + first;
    for (size_t i = 0; i < count; ++i) {
      const Wide v = static_cast<Wide>(x[i]);
      if (rank == 0) {
        wide[i] = v;
      } else if (op == ReduceOp::kSum) {
        wide[i] += v;
      } else {
        wide[i] = op == ReduceOp::kMax ? std::max(wide[i], v) : std::min(wide[i], v);
      }
    }
  }
  Bytes result(count * sizeof(T));
  std::transform(wide.begin(), wide.end(), reinterpret_cast<T*>(result.data()),
                 [](Wide v) { return T(v); });
  return result;
}

template <class Body>
void with_type(DType dtype, Body body) {
  switch (dtype) {
    case DType::kFloat64:
      return body(double{});
    case DType::kFloat32:
      return body(float{});
    case DType::kBFloat16:
      return body(BFloat16{});
    case DType::kInt32:
      return body(int32_t{});
    case DType::kInt64:
      return body(int64_t{});
    default:
      expects(false, "thread ranks reduce float64, float32, bfloat16, int32 and int64");
  }
}

class ThreadCommunicator final : public Communicator {
 public:
  ThreadCommunicator(std::shared_ptr<ThreadHub> hub, int rank, RankStatus* status)
      : hub_(std::move(hub)), rank_(rank), status_(status) {}

  int rank() const override { return rank_; }
  int size() const override { return hub_->size(); }
  std::shared_ptr<ThreadHub> hub() const override { return hub_; }

  // Every rank reduces one slice for all.
  Work all_reduce(const Tensor& x, ReduceOp op) override {
    const InCollective here(status_, hub_->name(), "all_reduce");
    const Published all = publish_equal(bytes_of(x));
    with_type(x.dtype(), [&]<class T>(T) {
      const auto n = static_cast<size_t>(x.numel()), parts = static_cast<size_t>(size());
      const auto me = static_cast<size_t>(rank_);
      const size_t first = n * me / parts, count = n * (me + 1) / parts - first;
      size_t at = 0;
      for (const auto& slice : publish(reduced<T>(all, op, first, count))) {
        copy_to(x, at, *slice);
        at += slice->size();
      }
    });
    return {};
  }

  Work reduce_scatter(const Tensor& out, const Tensor& in) override {
    const InCollective here(status_, hub_->name(), "reduce_scatter");
    expects(in.numel() == out.numel() * size(), "reduce_scatter sizes do not match");
    const Published all = publish_equal(bytes_of(in));
    with_type(in.dtype(), [&]<class T>(T) {
      const auto count = static_cast<size_t>(out.numel());
      const size_t first = count * static_cast<size_t>(rank_);
      copy_to(out, 0, reduced<T>(all, ReduceOp::kSum, first, count));
    });
    return {};
  }

  Work all_gather(const Tensor& out, const Tensor& in) override {
    const InCollective here(status_, hub_->name(), "all_gather");
    expects(out.numel() == in.numel() * size(), "all_gather sizes do not match");
    size_t at = 0;
    for (const auto& theirs : publish_equal(bytes_of(in))) {
      copy_to(out, at, *theirs);
      at += theirs->size();
    }
    return {};
  }

  Work broadcast(const Tensor& x, int root) override {
    const InCollective here(status_, hub_->name(), "broadcast");
    const Published all = publish_equal(bytes_of(x));
    if (rank_ != root) copy_to(x, 0, *all.at(static_cast<size_t>(root)));
    return {};
  }

  // Sends are buffered at once; receives are taken when waited for.
  Work exchange(std::span<const Transfer> sends, std::span<const Transfer> receives) override {
    const InCollective here(status_, hub_->name(), "exchange");
    for (const Transfer& send : sends) {
      hub_->post(rank_, send.peer, 0, std::make_shared<Bytes>(bytes_of(send.tensor)));
    }
    return Work([hub = hub_, rank = rank_, status = status_,
                 wanted = std::vector<Transfer>(receives.begin(), receives.end())] {
      const InCollective waited(status, hub->name(), "exchange");
      for (const Transfer& receive : wanted) {
        const auto bytes =
            std::static_pointer_cast<Bytes>(hub->take(receive.peer, rank, 0, status));
        expects(bytes->size() == static_cast<size_t>(receive.tensor.bytes()),
                "a message has another size than its receiver expects");
        copy_to(receive.tensor, 0, *bytes);
      }
    });
  }

  std::vector<Bytes> all_gather_bytes(std::span<const std::byte> mine) override {
    const InCollective here(status_, hub_->name(), "all_gather_bytes");
    std::vector<Bytes> all;
    for (const auto& theirs : publish(copy_of(mine))) all.push_back(*theirs);
    return all;
  }

  void barrier() override {
    const InCollective here(status_, hub_->name(), "barrier");
    hub_->barrier(status_);
  }

  void abort(const std::string& reason) override { hub_->abort(reason); }

 private:
  Published publish(Bytes mine) const {
    Published all;
    for (const auto& parcel :
         hub_->swap(rank_, std::make_shared<Bytes>(std::move(mine)), status_)) {
      all.push_back(std::static_pointer_cast<const Bytes>(parcel));
    }
    return all;
  }

  /// For collectives in which all give as much.
  Published publish_equal(Bytes mine) const {
    Published all = publish(std::move(mine));
    for (const auto& theirs : all) {
      expects(theirs->size() == all.front()->size(),
              "ranks of a group gave tensors of different sizes to one collective");
    }
    return all;
  }

  static Bytes bytes_of(const Tensor& x) {
    return copy_of(std::span<const std::byte>(x.data(), static_cast<size_t>(x.bytes())));
  }
  static Bytes copy_of(std::span<const std::byte> from) {
    Bytes bytes(from.size());
    if (!bytes.empty()) std::memcpy(bytes.data(), from.data(), bytes.size());
    return bytes;
  }
  static void copy_to(const Tensor& x, size_t at, const Bytes& bytes) {
    if (!bytes.empty()) std::memcpy(x.data() + at, bytes.data(), bytes.size());
  }

  std::shared_ptr<ThreadHub> hub_;
  int rank_;
  RankStatus* status_;
};

}  // namespace

std::unique_ptr<Communicator> make_thread_communicator(std::shared_ptr<ThreadHub> hub, int rank,
                                                       RankStatus* status) {
  return std::make_unique<ThreadCommunicator>(std::move(hub), rank, status);
}

}  // namespace verlcpp::parallel
