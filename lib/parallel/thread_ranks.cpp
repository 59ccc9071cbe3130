#include "parallel/thread_ranks.h"

#include <exception>
#include <mutex>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "parallel/thread_communicator.h"

namespace verlcpp::parallel {
namespace {

/// The first exception of any rank; later ones are its consequences.
class FirstFailure {
 public:
  bool set(std::exception_ptr failure) {
    std::lock_guard lock(mutex_);
    if (failure_) return false;
    failure_ = std::move(failure);
    return true;
  }
  void rethrow() const {
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  std::mutex mutex_;
  std::exception_ptr failure_;
};

/// The groups of all ranks. Created before any thread, so that a failure can reach all of them.
class Groups {
 public:
  explicit Groups(const AxisSizes& sizes) : world_(static_cast<int>(sizes.world)) {
    for (int64_t i = 0; i < sizes.tp * sizes.pp; ++i) {
      cp_.emplace_back(static_cast<int>(sizes.pool()));
      grad_.emplace_back(static_cast<int>(sizes.pool()));
    }
    for (int64_t i = 0; i < sizes.world / sizes.tp; ++i) {
      tp_.emplace_back(static_cast<int>(sizes.tp));
    }
  }

  void run(const Topology& me,
           const std::function<void(const Topology&, RankCommunicators)>& body) const {
    const auto pool = static_cast<size_t>(me.pp_rank() * me.sizes().tp + me.tp_rank());
    const auto tp_group = static_cast<size_t>(me.rank() / me.sizes().tp);
    const auto cp = cp_[pool].communicator(static_cast<int>(me.pool_rank()));
    const auto grad = grad_[pool].communicator(static_cast<int>(me.pool_rank()));
    const auto tp = tp_[tp_group].communicator(static_cast<int>(me.tp_rank()));
    const auto world = world_.communicator(static_cast<int>(me.rank()));
    body(me, {*cp, *grad, *tp, *world});
  }

  void abort(const std::string& reason) const {
    world_.abort(reason);
    for (const auto* groups : {&cp_, &grad_, &tp_}) {
      for (const ThreadWorld& group : *groups) group.abort(reason);
    }
  }

 private:
  ThreadWorld world_;
  std::vector<ThreadWorld> cp_, grad_;  // by pp_rank * tp + tp_rank
  std::vector<ThreadWorld> tp_;         // by rank / tp
};

}  // namespace

void run_thread_ranks(const AxisSizes& sizes,
                      const std::function<void(const Topology&, RankCommunicators)>& body) {
  std::vector<Topology> topologies;
  for (int64_t rank = 0; rank < sizes.world; ++rank) topologies.emplace_back(sizes, rank);
  const Groups groups(sizes);
  FirstFailure failure;
  const auto fail = [&] {
    if (failure.set(std::current_exception())) groups.abort("another rank failed");
  };
  {
    std::vector<std::jthread> threads;
    for (const Topology& topology : topologies) {
      try {
        threads.emplace_back([&] {
          try {
            groups.run(topology, body);
          } catch (...) {
            fail();
          }
        });
      } catch (const std::system_error&) {  // no thread to be had: wake those that run
        fail();
        break;
      }
    }
  }
  failure.rethrow();
}

}  // namespace verlcpp::parallel
