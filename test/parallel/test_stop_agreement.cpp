#include <array>
#include <chrono>
#include <thread>
#include <vector>

#include "base/error.h"
#include "parallel/stop_agreement.h"
#include "parallel/thread_ranks.h"
#include "support/catch.h"

using namespace verlcpp;
using namespace verlcpp::parallel;

namespace {

/// How many points a member passes until it is told to stop.
template <class Piece>
int pieces_until_stop(const StopPoint& stop, const Piece& piece) {
  int done = 0;
  while (!stop.here()) piece(++done);
  return done;
}

}  // namespace

TEST_CASE("all members stop at the first point that nobody has passed") {
  std::atomic<bool> stop{false};
  StopAgreement agreement(3, &stop);
  for (int i = 0; i < 3; ++i) CHECK_FALSE(agreement.here(0));
  CHECK_FALSE(agreement.here(1));
  stop = true;
  CHECK_FALSE(agreement.here(1));  // its second: member 0 has gone on from its third
  CHECK_FALSE(agreement.here(1));
  for (int i = 0; i < 3; ++i) CHECK_FALSE(agreement.here(2));
  for (int member = 0; member < 3; ++member) {
    CHECK(agreement.here(member));
    CHECK(agreement.here(member));  // and at every later one
  }
}

TEST_CASE("the leader that sees the flag stops where it is; no flag, no stop") {
  std::atomic<bool> stop{true};
  StopAgreement agreement(2, &stop);
  CHECK(agreement.here(1));
  CHECK(agreement.here(0));
  StopAgreement never(1, nullptr);
  for (int i = 0; i < 100; ++i) CHECK_FALSE(never.here(0));
  CHECK_FALSE(StopPoint().here());
}

TEST_CASE("threads that run ahead of one another do the same number of pieces") {
  for (int round = 0; round < 20; ++round) {
    std::atomic<bool> stop{false};
    StopAgreement agreement(4, &stop);
    std::array<int, 4> done{};
    {
      std::vector<std::jthread> threads;
      for (int64_t member = 0; member < 4; ++member) {
        threads.emplace_back([&, member] {
          done[static_cast<size_t>(member)] =
              pieces_until_stop(StopPoint(agreement, member), [&](int piece) {
                // Member 0 is fast, 3 is slow, and one of them raises the flag.
                std::this_thread::sleep_for(std::chrono::microseconds(100 + 50 * member));
                if (member == round % 4 && piece == 30 + round) stop = true;
              });
        });
      }
    }
    CHECK(done[0] >= 30 + round);
    CHECK((done[1] == done[0] && done[2] == done[0] && done[3] == done[0]));
  }
}

TEST_CASE("ranks stop before the same piece, also when pieces hold collectives") {
  std::atomic<bool> stop{false};
  std::array<int, 4> decoded{}, steps{};
  run_thread_ranks({.world = 4, .tp = 2},
                   [&](const Topology& me, const RankCommunicators& comm) {
                     const auto rank = static_cast<size_t>(me.rank());
                     const auto sleep = std::chrono::microseconds(50 + 100 * me.pool_rank());
                     // The pool coordinates decode at different speeds; each TP pair agrees by
                     // itself.
                     decoded[rank] = pieces_until_stop(comm.tp_stop, [&](int piece) {
                       std::this_thread::sleep_for(sleep);
                       if (rank == 3 && piece == 40) stop = true;
                       comm.tp.barrier();
                     });
                     steps[rank] =
                         pieces_until_stop(comm.world_stop, [&](int) { comm.world.barrier(); });
                   },
                   {.stop = &stop});
  CHECK(decoded[0] == decoded[1]);
  CHECK(decoded[2] == decoded[3]);
  CHECK((decoded[2] == 40 || decoded[2] == 41));
  CHECK((steps[1] == steps[0] && steps[2] == steps[0] && steps[3] == steps[0]));
}
