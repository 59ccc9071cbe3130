#include <array>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

#include "base/error.h"
#include "parallel/thread_ranks.h"
#include "support/catch.h"

using namespace verlcpp;
using namespace verlcpp::parallel;
using namespace std::chrono_literals;

namespace {

using Clock = std::chrono::steady_clock;

/// What SIGSTOP would do to the work of one rank: it neither computes nor waits in a collective.
class Hung {
 public:
  void hang() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return released_; });
  }
  void release() {
    std::lock_guard lock(mutex_);
    released_ = true;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool released_ = false;
};

std::string message(const std::exception_ptr& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const std::exception& e) {
    return e.what();
  }
}

void receive_from(Communicator& cp, int peer) {
  float value = 0;
  const Transfer receive{peer,
                         {DType::kFloat32, {1}, nullptr, reinterpret_cast<std::byte*>(&value)}};
  cp.exchange({}, {&receive, 1}).wait();
}

}  // namespace

TEST_CASE("the first failure ends ranks that compute without collectives, with its one message") {
  std::array<std::string, 4> seen;
  const auto start = Clock::now();
  CHECK_THROWS_WITH(run_thread_ranks({.world = 4},
                                     [&](const Topology& me, const RankCommunicators& comm) {
                                       comm.world.barrier();
                                       if (me.rank() == 1) throw DataError("row 7 is bad");
                                       try {
                                         for (;;) {
                                           comm.status.beat();
                                           std::this_thread::sleep_for(1ms);
                                         }
                                       } catch (const DeviceError& e) {
                                         seen[static_cast<size_t>(me.rank())] = e.what();
                                         throw;
                                       }
                                     }),
                    "row 7 is bad");
  CHECK(Clock::now() - start < 1s);
  for (const size_t rank : {0, 2, 3}) CHECK(seen[rank] == "another rank failed");
}

TEST_CASE("every sign of life throws once the ranks were aborted") {
  RankStatus status;
  status.enter("gen");
  status.micro_batch(1);
  status.abort("the first reason");
  status.abort("a later one");
  CHECK_THROWS_WITH(status.beat(), "the first reason");
  CHECK_THROWS_AS(status.enter("reward"), DeviceError);
  CHECK_THROWS_AS(status.micro_batch(2), DeviceError);
  CHECK(status.snapshot().phase == std::string("gen"));
}

TEST_CASE("a rank that stops answering is reported, and given up if it does not come back") {
  Hung hung;
  std::string given_up;
  const auto start = Clock::now();
  Clock::time_point end;
  const auto body = [&](const Topology& me, const RankCommunicators& comm) {
    comm.status.enter("update_actor");
    float value = 1;
    comm.grad
        .all_reduce({DType::kFloat32, {1}, nullptr, reinterpret_cast<std::byte*>(&value)},
                    ReduceOp::kSum)
        .wait();
    comm.status.micro_batch(3);
    if (me.rank() == 2) return hung.hang();
    receive_from(comm.cp, 2);
  };
  const ThreadRanksOptions options{
      .silence_limit = 500ms, .grace = 100ms, .give_up = [&](const std::exception_ptr& failure) {
        given_up = message(failure);
        end = Clock::now();
        hung.release();
      }};
  const std::string expected =
      "rank 2 (TP 0, pool rank 2) has not answered for 500 ms (actor_rollout_ref.nccl_timeout): "
      "phase update_actor, micro-batch 3, last collective grad.all_reduce; ranks 0, 1, 3 wait in "
      "cp.exchange";
  CHECK_THROWS_WITH(run_thread_ranks({.world = 4}, body, options), expected);
  CHECK(given_up == expected);
  CHECK(end - start >= 600ms);
  CHECK(end - start < 2s);
}

TEST_CASE("a thread stuck after another rank's failure is given up within a second") {
  Hung hung;
  std::string given_up;
  Clock::time_point thrown, end;
  const auto body = [&](const Topology& me, const RankCommunicators& comm) {
    comm.world.barrier();
    if (me.rank() == 1) hung.hang();
    if (me.rank() == 0) {
      thrown = Clock::now();
      throw ConfigError("no such key");
    }
    comm.world.barrier();
  };
  CHECK_THROWS_AS(run_thread_ranks({.world = 3}, body,
                                   {.give_up =
                                        [&](const std::exception_ptr& failure) {
                                          given_up = message(failure);
                                          end = Clock::now();
                                          hung.release();
                                        }}),
                  ConfigError);
  CHECK(given_up == "no such key");
  CHECK(end - thrown < 1s);
}

TEST_CASE("threads that come back in time are not given up") {
  bool given_up = false;
  CHECK_THROWS_AS(
      run_thread_ranks({.world = 3},
                       [](const Topology& me, const RankCommunicators& comm) {
                         if (me.rank() == 0) throw DataError("bad");
                         comm.world.barrier();
                       },
                       {.give_up = [&](const std::exception_ptr&) { given_up = true; }}),
      DataError);
  CHECK_FALSE(given_up);
}

TEST_CASE("mismatched collectives are a deadlock that names each rank's place") {
  CHECK_THROWS_WITH(
      run_thread_ranks({.world = 3},
                       [](const Topology& me, const RankCommunicators& comm) {
                         comm.status.enter(me.rank() == 0 ? "gen" : "reward");
                         if (me.rank() == 0) return comm.world.barrier();
                         comm.status.micro_batch(me.rank());
                         receive_from(comm.cp, 0);
                       },
                       {.silence_limit = 200ms}),
      "no rank can go on, nothing has moved for 200 ms (actor_rollout_ref.nccl_timeout): "
      "rank 0 waits in world.barrier (phase gen); "
      "rank 1 waits in cp.exchange (phase reward, micro-batch 1); "
      "rank 2 waits in cp.exchange (phase reward, micro-batch 2)");
}

TEST_CASE("a rank that ended before its collective is reported") {
  CHECK_THROWS_WITH(
      run_thread_ranks({.world = 2, .tp = 2},
                       [](const Topology& me, const RankCommunicators& comm) {
                         if (me.rank() == 1) comm.tp.all_gather_bytes({});
                       },
                       {.silence_limit = 200ms}),
      "no rank can go on, nothing has moved for 200 ms (actor_rollout_ref.nccl_timeout): "
      "rank 0 has ended; rank 1 waits in tp.all_gather_bytes (phase start)");
}

TEST_CASE("ranks that give signs of life may take longer than the limit") {
  run_thread_ranks({.world = 2},
                   [](const Topology& me, const RankCommunicators& comm) {
                     comm.status.enter("save_checkpoint");
                     const auto start = Clock::now();
                     while (me.rank() == 0 && Clock::now() - start < 1200ms) {
                       std::this_thread::sleep_for(5ms);
                       comm.status.beat();
                     }
                     comm.world.barrier();
                   },
                   {.silence_limit = 400ms});
}
