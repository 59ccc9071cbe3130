#include "parallel/thread_communicator.h"

#include <algorithm>
#include <bit>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <mutex>
#include <utility>

#include "base/error.h"

namespace verlcpp::parallel {

namespace {

/// While it lives, the rank is in a collective.
class InCollective {
 public:
  InCollective(RankStatus* status, const char* group, const char* op) : status_(status) {
    if (status_ != nullptr) status_->begin_collective(group, op);
  }
  ~InCollective() {
    if (status_ != nullptr) status_->end_collective();
  }
  InCollective(const InCollective&) = delete;
  InCollective& operator=(const InCollective&) = delete;

 private:
  RankStatus* status_;
};

/// While it lives, the rank waits for others.
class Waiting {
 public:
  explicit Waiting(RankStatus* status) : status_(status) {
    if (status_ != nullptr) status_->set_waiting(true);
  }
  ~Waiting() {
    if (status_ != nullptr) status_->set_waiting(false);
  }
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;

 private:
  RankStatus* status_;
};

}  // namespace

// What the ranks share. Nobody ever touches another rank's tensors: a rank publishes a copy,
// results that others need lie here too, so a rank may fail and unwind at any time. Between two
// barriers ranks read `published` and write `reduced` at disjoint places; everything else is
// guarded by `mutex`.
struct ThreadWorld::Hub {
  Hub(int size, const char* name)
      : size(size),
        name(name),
        published(static_cast<size_t>(size)),
        mail(static_cast<size_t>(size) * static_cast<size_t>(size)) {}

  const int size;
  const char* const name;
  std::mutex mutex;
  std::condition_variable changed;
  bool aborted = false;
  std::string reason;
  int arrived = 0;
  uint64_t generation = 0;
  std::vector<std::vector<std::byte>> published;         // by rank, for the collective under way
  std::vector<std::byte> reduced;                        // of an all_reduce
  std::vector<std::deque<std::vector<std::byte>>> mail;  // [source * size + destination], in order

  void throw_if_aborted() const {
    if (aborted) throw DeviceError(reason);
  }

  void barrier(RankStatus* status) {
    std::unique_lock lock(mutex);
    throw_if_aborted();
    const uint64_t mine = generation;
    if (++arrived == size) {
      arrived = 0;
      ++generation;
      changed.notify_all();
      return;
    }
    const Waiting waiting(status);
    changed.wait(lock, [&] { return generation != mine || aborted; });
    if (generation == mine) throw_if_aborted();
  }

  /// Publishes a copy of my bytes and waits until everybody's are there. A collective ends with a
  /// barrier, so nobody still reads the previous one's.
  void publish(int rank, std::vector<std::byte> bytes, RankStatus* status) {
    published[static_cast<size_t>(rank)] = std::move(bytes);
    barrier(status);
  }

  /// The same for collectives in which all give as much; everybody reads everybody's.
  void publish_equal(int rank, std::vector<std::byte> bytes, RankStatus* status) {
    const size_t size_of_mine = bytes.size();
    publish(rank, std::move(bytes), status);
    for (const auto& theirs : published) {
      expects(theirs.size() == size_of_mine,
              "ranks of a group gave tensors of different sizes to one collective");
    }
  }

  void post(int source, int destination, std::vector<std::byte> bytes) {
    std::lock_guard lock(mutex);
    throw_if_aborted();
    mail[static_cast<size_t>(source * size + destination)].push_back(std::move(bytes));
    changed.notify_all();
  }

  std::vector<std::byte> take(int source, int destination, RankStatus* status) {
    std::unique_lock lock(mutex);
    auto& box = mail[static_cast<size_t>(source * size + destination)];
    if (box.empty() && !aborted) {
      const Waiting waiting(status);
      changed.wait(lock, [&] { return aborted || !box.empty(); });
    }
    throw_if_aborted();
    std::vector<std::byte> bytes = std::move(box.front());
    box.pop_front();
    return bytes;
  }

  void abort(const std::string& why) {
    std::lock_guard lock(mutex);
    if (!aborted) reason = why;
    aborted = true;
    changed.notify_all();
  }
};

namespace {

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
std::vector<T> reduce_range(const std::vector<std::vector<std::byte>>& published, ReduceOp op,
                            size_t first, size_t count) {
  using Wide = std::conditional_t<std::is_integral_v<T>, int64_t, double>;
  std::vector<Wide> wide(count);
  for (size_t rank = 0; rank < published.size(); ++rank) {
    const T* x = reinterpret_cast<const T*>(published[rank].data()) + first;
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
  std::vector<T> result(count);
  std::transform(wide.begin(), wide.end(), result.begin(), [](Wide v) { return T(v); });
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
  ThreadCommunicator(std::shared_ptr<ThreadWorld::Hub> hub, int rank, RankStatus* status)
      : hub_(std::move(hub)), rank_(rank), status_(status) {}

  int rank() const override { return rank_; }
  int size() const override { return hub_->size; }
  void attach(Backend& backend) override { backend_ = &backend; }

  // Every rank reduces one slice for all.
  Work all_reduce(const Tensor& x, ReduceOp op) override {
    const InCollective here(status_, hub_->name, "all_reduce");
    hub_->publish_equal(rank_, to_host(x), status_);
    if (rank_ == 0) hub_->reduced.resize(static_cast<size_t>(x.bytes()));
    hub_->barrier(status_);
    with_type(x.dtype(), [&]<class T>(T) {
      const auto n = static_cast<size_t>(x.numel()), parts = static_cast<size_t>(size());
      const size_t first = n * static_cast<size_t>(rank_) / parts;
      const size_t count = n * (static_cast<size_t>(rank_) + 1) / parts - first;
      const std::vector<T> mine = reduce_range<T>(hub_->published, op, first, count);
      std::copy(mine.begin(), mine.end(), reinterpret_cast<T*>(hub_->reduced.data()) + first);
    });
    hub_->barrier(status_);
    to_tensor(x, hub_->reduced);
    hub_->barrier(status_);
    return {};
  }

  Work reduce_scatter(const Tensor& out, const Tensor& in) override {
    const InCollective here(status_, hub_->name, "reduce_scatter");
    expects(in.numel() == out.numel() * size(), "reduce_scatter sizes do not match");
    hub_->publish_equal(rank_, to_host(in), status_);
    with_type(in.dtype(), [&]<class T>(T) {
      const auto count = static_cast<size_t>(out.numel());
      const std::vector<T> mine = reduce_range<T>(hub_->published, ReduceOp::kSum,
                                                  count * static_cast<size_t>(rank_), count);
      to_tensor(out, std::as_bytes(std::span(mine)));
    });
    hub_->barrier(status_);
    return {};
  }

  Work all_gather(const Tensor& out, const Tensor& in) override {
    const InCollective here(status_, hub_->name, "all_gather");
    expects(out.numel() == in.numel() * size(), "all_gather sizes do not match");
    hub_->publish_equal(rank_, to_host(in), status_);
    for (size_t rank = 0; rank < hub_->published.size(); ++rank) {
      to_tensor(out.slice(static_cast<int64_t>(rank) * in.numel(), {in.numel()}),
                hub_->published[rank]);
    }
    hub_->barrier(status_);
    return {};
  }

  Work broadcast(const Tensor& x, int root) override {
    const InCollective here(status_, hub_->name, "broadcast");
    hub_->publish_equal(rank_, to_host(x), status_);
    if (rank_ != root) to_tensor(x, hub_->published.at(static_cast<size_t>(root)));
    hub_->barrier(status_);
    return {};
  }

  // Sends are buffered at once; receives are taken when waited for.
  Work exchange(std::span<const Transfer> sends, std::span<const Transfer> receives) override {
    const InCollective here(status_, hub_->name, "exchange");
    for (const Transfer& send : sends) hub_->post(rank_, send.peer, to_host(send.tensor));
    return Work([this, hub = hub_, rank = rank_, status = status_,
                 wanted = std::vector<Transfer>(receives.begin(), receives.end())] {
      const InCollective waited(status, hub->name, "exchange");
      for (const Transfer& receive : wanted) {
        const std::vector<std::byte> bytes = hub->take(receive.peer, rank, status);
        expects(bytes.size() == static_cast<size_t>(receive.tensor.bytes()),
                "a message has another size than its receiver expects");
        to_tensor(receive.tensor, bytes);
      }
    });
  }

  std::vector<std::vector<std::byte>> all_gather_bytes(std::span<const std::byte> mine) override {
    const InCollective here(status_, hub_->name, "all_gather_bytes");
    hub_->publish(rank_, {mine.begin(), mine.end()}, status_);
    std::vector<std::vector<std::byte>> all = hub_->published;
    hub_->barrier(status_);
    return all;
  }

  void barrier() override {
    const InCollective here(status_, hub_->name, "barrier");
    hub_->barrier(status_);
  }
  void abort(const std::string& reason) override { hub_->abort(reason); }

 private:
  /// Between a tensor and the host, where the ranks meet.
  std::vector<std::byte> to_host(const Tensor& x) const {
    std::vector<std::byte> bytes(static_cast<size_t>(x.bytes()));
    if (backend_ != nullptr) {
      backend_->read(bytes, x);
    } else if (!bytes.empty()) {
      std::memcpy(bytes.data(), x.data(), bytes.size());
    }
    return bytes;
  }
  void to_tensor(const Tensor& x, std::span<const std::byte> bytes) const {
    if (backend_ != nullptr) {
      backend_->write(x, bytes);
    } else if (!bytes.empty()) {
      std::memcpy(x.data(), bytes.data(), bytes.size());
    }
  }

  std::shared_ptr<ThreadWorld::Hub> hub_;
  int rank_;
  RankStatus* status_;
  Backend* backend_ = nullptr;
};

}  // namespace

ThreadWorld::ThreadWorld(int size, const char* name) {
  expects(size >= 1, "a group needs at least one rank");
  hub_ = std::make_shared<Hub>(size, name);
}
ThreadWorld::~ThreadWorld() = default;

std::unique_ptr<Communicator> ThreadWorld::communicator(int rank, RankStatus* status) const {
  expects(rank >= 0 && rank < hub_->size, "rank outside of the group");
  return std::make_unique<ThreadCommunicator>(hub_, rank, status);
}

void ThreadWorld::abort(const std::string& reason) const { hub_->abort(reason); }

}  // namespace verlcpp::parallel
