#include "train/busy_meter.h"

#include <time.h>

#include <chrono>
#include <type_traits>
#include <utility>

namespace verlcpp::train {

using parallel::Communicator;
using parallel::ReduceOp;
using parallel::Transfer;
using parallel::Work;

/// A communicator that tells the meter when a call or a wait begins and ends.
class BusyMeter::Metered final : public Communicator {
 public:
  Metered(BusyMeter& meter, Communicator& inner) : meter_(meter), inner_(inner) {}

  int rank() const override { return inner_.rank(); }
  int size() const override { return inner_.size(); }
  std::shared_ptr<parallel::ThreadHub> hub() const override { return inner_.hub(); }
  Work all_reduce(const Tensor& x, ReduceOp op) override {
    return start([&] { return inner_.all_reduce(x, op); });
  }
  Work reduce_scatter(const Tensor& out, const Tensor& in) override {
    return start([&] { return inner_.reduce_scatter(out, in); });
  }
  Work all_gather(const Tensor& out, const Tensor& in) override {
    return start([&] { return inner_.all_gather(out, in); });
  }
  Work broadcast(const Tensor& x, int root) override {
    return start([&] { return inner_.broadcast(x, root); });
  }
  Work exchange(std::span<const Transfer> sends, std::span<const Transfer> receives) override {
    return start([&] { return inner_.exchange(sends, receives); });
  }
  std::vector<std::vector<std::byte>> all_gather_bytes(std::span<const std::byte> mine) override {
    return outside([&] { return inner_.all_gather_bytes(mine); });
  }
  void barrier() override {
    outside([&] { inner_.barrier(); });
  }
  void abort(const std::string& reason) override { inner_.abort(reason); }

 private:
  template <class Call>
  std::invoke_result_t<const Call&> outside(const Call& call) {
    const Pause pause(meter_);
    return call();
  }

  /// The wait is outside of computing too, and so is the transfer that it stands for.
  template <class Issue>
  Work start(const Issue& issue) {
    Work work = outside(issue);
    if (!meter_.running_) return work;
    return Work([this, work]() mutable {
      outside([&] {
        work.wait();
        meter_.backend_.synchronize();
      });
    });
  }

  struct Pause {
    explicit Pause(BusyMeter& m) : meter(m) { meter.leave_compute(); }
    ~Pause() { meter.enter_compute(); }
    BusyMeter& meter;
  };

  BusyMeter& meter_;
  Communicator& inner_;
};

BusyMeter::BusyMeter(Backend& backend, const parallel::RankCommunicators& inner, Clock clock)
    : backend_(backend),
      clock_(std::move(clock)),
      inner_(inner),
      cp_(std::make_unique<Metered>(*this, inner.cp)),
      grad_(std::make_unique<Metered>(*this, inner.grad)),
      tp_(std::make_unique<Metered>(*this, inner.tp)),
      world_(std::make_unique<Metered>(*this, inner.world)) {}

BusyMeter::~BusyMeter() = default;

parallel::RankCommunicators BusyMeter::communicators() {
  return {.cp = *cp_,
          .grad = *grad_,
          .tp = *tp_,
          .world = *world_,
          .status = inner_.status,
          .world_stop = inner_.world_stop,
          .tp_stop = inner_.tp_stop};
}

void BusyMeter::start() {
  backend_.synchronize();
  busy_ = 0;
  running_ = true;
  since_ = clock_();
}

double BusyMeter::stop() {
  leave_compute();
  running_ = false;
  return busy_;
}

void BusyMeter::leave_compute() {
  if (!running_) return;
  backend_.synchronize();
  busy_ += clock_() - since_;
}

void BusyMeter::enter_compute() {
  if (running_) since_ = clock_();
}

double thread_cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

double wall_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace verlcpp::train
