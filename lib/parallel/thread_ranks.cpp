#include "parallel/thread_ranks.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "parallel/thread_communicator.h"
#include "parallel/watchdog.h"

namespace verlcpp::parallel {
namespace {

using Clock = RankStatus::Clock;
using std::chrono::milliseconds;

/// What the ranks share: their groups, places and agreements. Created before any thread, so that a
/// failure can reach all of them.
class Ranks {
 public:
  Ranks(const AxisSizes& sizes, const std::atomic<bool>* stop)
      : sizes_(sizes),
        status_(static_cast<size_t>(sizes.world)),
        world_(hub(sizes.world, "world")),
        world_stop_(sizes.world, stop) {
    for (int64_t i = 0; i < sizes.tp * sizes.pp; ++i) {
      cp_.push_back(hub(sizes.pool(), "cp"));
      grad_.push_back(hub(sizes.pool(), "grad"));
    }
    for (int64_t i = 0; i < sizes.world / sizes.tp; ++i) {
      tp_.push_back(hub(sizes.tp, "tp"));
      tp_stop_.emplace_back(sizes.tp, stop);
    }
  }

  void run(const Topology& me, const RankBody& body) {
    const auto pool = static_cast<size_t>(me.pp_rank() * sizes_.tp + me.tp_rank());
    const auto tp_group = static_cast<size_t>(me.rank() / sizes_.tp);
    RankStatus& status = status_[static_cast<size_t>(me.rank())];
    const auto join = [&](const Hub& hub, int64_t rank) {
      return make_thread_communicator(hub, static_cast<int>(rank), &status);
    };
    const auto cp = join(cp_[pool], me.pool_rank()), grad = join(grad_[pool], me.pool_rank());
    const auto tp = join(tp_[tp_group], me.tp_rank()), world = join(world_, me.rank());
    body(me, {.cp = *cp,
              .grad = *grad,
              .tp = *tp,
              .world = *world,
              .status = status,
              .world_stop = StopPoint(world_stop_, me.rank()),
              .tp_stop = StopPoint(tp_stop_[tp_group], me.tp_rank())});
  }

  void end(const Topology& me) { status_[static_cast<size_t>(me.rank())].end(); }

  void abort(const std::string& reason) {
    for (RankStatus& status : status_) status.abort(reason);
    world_->abort(reason);
    for (const auto* groups : {&cp_, &grad_, &tp_}) {
      for (const Hub& group : *groups) group->abort(reason);
    }
  }

  std::optional<std::string> stuck(Clock::time_point now, Clock::time_point since,
                                   milliseconds limit) const {
    std::vector<RankStatus::Snapshot> all;
    for (const RankStatus& status : status_) all.push_back(status.snapshot());
    return find_stuck_ranks(sizes_, all, now, since, limit);
  }

 private:
  using Hub = std::shared_ptr<ThreadHub>;
  static Hub hub(int64_t size, const char* name) {
    return std::make_shared<ThreadHub>(static_cast<int>(size), name);
  }

  AxisSizes sizes_;
  std::deque<RankStatus> status_;  // by rank
  Hub world_;
  std::vector<Hub> cp_, grad_;  // by pp_rank * tp + tp_rank
  std::vector<Hub> tp_;         // by rank / tp
  StopAgreement world_stop_;
  std::deque<StopAgreement> tp_stop_;  // by rank / tp
};

/// How far the threads have come: the calling thread waits here for what they report.
class Progress {
 public:
  /// True for the first failure of all; later ones are its consequences.
  bool fail(std::exception_ptr failure) {
    std::lock_guard lock(mutex_);
    if (failure_) return false;
    failure_ = std::move(failure);
    changed_.notify_all();
    return true;
  }
  void end() {
    std::lock_guard lock(mutex_);
    ++ended_;
    changed_.notify_all();
  }
  /// Whether `threads` threads have ended, or anything has failed, before `deadline`.
  bool settled(size_t threads, Clock::time_point deadline) {
    std::unique_lock lock(mutex_);
    return changed_.wait_until(lock, deadline, [&] { return ended_ == threads || failure_; });
  }
  bool all_ended(size_t threads, Clock::time_point deadline) {
    std::unique_lock lock(mutex_);
    return changed_.wait_until(lock, deadline, [&] { return ended_ == threads; });
  }
  std::exception_ptr failure() {
    std::lock_guard lock(mutex_);
    return failure_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::exception_ptr failure_;
  size_t ended_ = 0;
};

/// Waits until all have ended, one has failed, or `stuck(now, since)` says what is wrong; its text
/// then. Looks at least once a second and eight times within the limit. A look that comes late
/// means that the whole process was suspended: silence counts anew from there.
template <class Stuck>
std::optional<std::string> watch(Progress& progress, size_t threads, milliseconds limit,
                                 const Stuck& stuck) {
  const milliseconds tick = std::clamp(limit / 8, milliseconds(1), milliseconds(1000));
  Clock::time_point since = Clock::now();
  for (;;) {
    const Clock::time_point planned = Clock::now() + tick;
    if (progress.settled(threads, planned)) return {};
    const Clock::time_point now = Clock::now();
    if (now - planned > tick) since = now;
    if (std::optional<std::string> found = stuck(now, since)) return found;
  }
}

}  // namespace

void run_thread_ranks(const AxisSizes& sizes, const RankBody& body,
                      const ThreadRanksOptions& options) {
  std::vector<Topology> topologies;
  for (int64_t rank = 0; rank < sizes.world; ++rank) topologies.emplace_back(sizes, rank);
  Ranks ranks(sizes, options.stop);
  Progress progress;
  const auto fail = [&](std::exception_ptr failure) {
    if (progress.fail(std::move(failure))) ranks.abort("another rank failed");
  };
  std::vector<std::jthread> threads;
  threads.reserve(topologies.size());
  for (const Topology& topology : topologies) {
    try {
      threads.emplace_back([&] {
        try {
          ranks.run(topology, body);
        } catch (...) {
          fail(std::current_exception());
        }
        ranks.end(topology);
        progress.end();
      });
    } catch (...) {  // no thread, or no memory for it: wake those that run, or they wait for good
      fail(std::current_exception());
      break;
    }
  }
  if (options.silence_limit) {
    const milliseconds limit = *options.silence_limit;
    const auto found = watch(progress, threads.size(), limit,
                             [&](auto now, auto since) { return ranks.stuck(now, since, limit); });
    if (found) fail(std::make_exception_ptr(DeviceError(*found)));
  } else {
    progress.settled(threads.size(), Clock::time_point::max());
  }
  const std::exception_ptr failure = progress.failure();
  if (!failure) return;  // the threads' destructors join them
  if (options.give_up && !progress.all_ended(threads.size(), Clock::now() + options.grace)) {
    options.give_up(failure);
  }
  threads.clear();
  std::rethrow_exception(failure);
}

}  // namespace verlcpp::parallel
