#include <vector>

#include "parallel/watchdog.h"
#include "support/catch.h"

using namespace verlcpp;
using namespace verlcpp::parallel;
using namespace std::chrono_literals;

namespace {

using Snapshot = RankStatus::Snapshot;
using Time = RankStatus::Clock::time_point;

constexpr auto kLimit = std::chrono::milliseconds(600s);
const Time kBegin{};

Snapshot waiting(const char* collective, std::chrono::milliseconds last_sign) {
  return {.phase = "update_actor",
          .micro_batch = 3,
          .collective = collective,
          .in_collective = true,
          .waiting = true,
          .last_sign = kBegin + last_sign};
}

Snapshot computing(std::chrono::milliseconds last_sign) {
  return {.phase = "update_actor",
          .micro_batch = 3,
          .collective = "grad.all_reduce",
          .last_sign = kBegin + last_sign};
}

std::string found(const std::vector<Snapshot>& ranks, std::chrono::milliseconds now,
                  int64_t tp = 1) {
  const AxisSizes sizes{.world = static_cast<int64_t>(ranks.size()), .tp = tp};
  return find_stuck_ranks(sizes, ranks, kBegin + now, kBegin, kLimit).value_or("");
}

}  // namespace

TEST_CASE("the rank that others wait for is named with its place once the limit has passed") {
  const std::vector<Snapshot> ranks{waiting("cp.exchange", 2s), waiting("tp.all_reduce", 1s),
                                    computing(3s), waiting("cp.exchange", 4s)};
  CHECK(found(ranks, 602999ms, 2).empty());
  CHECK(found(ranks, 603s, 2) ==
        "rank 2 (TP 0, pool rank 1) has not answered for 600 s (actor_rollout_ref.nccl_timeout): "
        "phase update_actor, micro-batch 3, last collective grad.all_reduce; ranks 0, 3 wait in "
        "cp.exchange; rank 1 waits in tp.all_reduce");
}

TEST_CASE("a rank that never came to a collective, and one that hangs inside of one") {
  Snapshot fresh{.phase = "gen", .last_sign = kBegin};
  CHECK(found({fresh}, 600s) ==
        "rank 0 (TP 0, pool rank 0) has not answered for 600 s (actor_rollout_ref.nccl_timeout): "
        "phase gen, before any collective");
  Snapshot inside = computing(1s);
  inside.in_collective = true;
  CHECK(found({computing(2s), inside}, 601s) ==
        "rank 1 (TP 0, pool rank 1) has not answered for 600 s (actor_rollout_ref.nccl_timeout): "
        "phase update_actor, micro-batch 3, in grad.all_reduce; rank 0 computes");
}

TEST_CASE("waiting ranks are not accused while one computes and lives") {
  CHECK(found({waiting("cp.exchange", 0s), computing(900s)}, 1000s).empty());
}

TEST_CASE("ranks that wait for each other are a deadlock, counted from the last sign of any") {
  const std::vector<Snapshot> ranks{waiting("cp.exchange", 1s), waiting("world.barrier", 5s)};
  CHECK(found(ranks, 604s).empty());
  CHECK(found(ranks, 605s) ==
        "no rank can go on, nothing has moved for 600 s (actor_rollout_ref.nccl_timeout): "
        "rank 0 waits in cp.exchange (phase update_actor, micro-batch 3); "
        "rank 1 waits in world.barrier (phase update_actor, micro-batch 3)");
}

TEST_CASE("a rank that has ended is no culprit by itself, but those that wait for it are told") {
  Snapshot ended = computing(5s);
  ended.ended = true;
  CHECK(found({ended, ended}, 10000s).empty());
  CHECK(found({ended, computing(9000s)}, 9001s).empty());
  CHECK(found({ended, waiting("grad.barrier", 1s)}, 605s) ==
        "no rank can go on, nothing has moved for 600 s (actor_rollout_ref.nccl_timeout): "
        "rank 0 has ended; rank 1 waits in grad.barrier (phase update_actor, micro-batch 3)");
}

TEST_CASE("time before `since`, when the process was suspended, accuses nobody") {
  const std::vector<Snapshot> ranks{computing(0s)};
  const AxisSizes sizes{};
  CHECK_FALSE(find_stuck_ranks(sizes, ranks, kBegin + 1599s, kBegin + 1000s, kLimit));
  CHECK(find_stuck_ranks(sizes, ranks, kBegin + 1600s, kBegin + 1000s, kLimit));
}

TEST_CASE("a collective of an earlier micro-batch is shown with that one until it ends") {
  RankStatus status;
  status.enter("update_actor");
  status.micro_batch(7);
  status.begin_collective("cp", "exchange", 5);
  CHECK(status.snapshot().micro_batch == 5);
  CHECK(status.current_micro_batch() == 7);
  status.end_collective();
  CHECK(status.snapshot().micro_batch == 7);
  status.begin_collective("cp", "exchange");
  CHECK(status.snapshot().micro_batch == 7);
}
