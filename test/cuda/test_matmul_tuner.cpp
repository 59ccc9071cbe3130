// Runs without a GPU.

#include <vector>

#include "cuda/matmul_tuner.h"
#include "support/catch.h"

using verlcpp::cuda::MatmulTuner;

namespace {

/// Calls until the choice is made, where candidate i takes times[i]; the turns of each.
std::vector<int> tune(MatmulTuner& tuner, const std::vector<double>& times) {
  std::vector<int> turns(times.size());
  for (int call = 0; call < 100 && !tuner.decided(); ++call) {
    const auto [candidate, timed] = tuner.next();
    CHECK(timed);
    ++turns[static_cast<size_t>(candidate)];
    tuner.report(candidate, times[static_cast<size_t>(candidate)]);
  }
  return turns;
}

}  // namespace

TEST_CASE("the fastest candidate takes all once each was timed; slow ones get two turns") {
  MatmulTuner tuner(4);
  CHECK(tune(tuner, {1.1, 2.0, 1.0, 1.2}) == std::vector<int>{3, 2, 3, 3});
  CHECK(tuner.decided());
  for (int call = 0; call < 3; ++call) {
    CHECK(tuner.next().candidate == 2);
    CHECK_FALSE(tuner.next().timed);
  }
}

// Else a replayed body, which is captured once its products try nothing more, would run in vain.
TEST_CASE("a candidate without a rival is not timed") {
  MatmulTuner tuner(1);
  CHECK(tuner.decided());
  CHECK(tuner.next().candidate == 0);
  CHECK_FALSE(tuner.next().timed);
}

TEST_CASE("the shortest of a candidate's times counts") {
  MatmulTuner tuner(2);
  std::vector<double> first{9.0, 1.0, 1.0};  // a start that was disturbed
  for (size_t told = 0; !tuner.decided();) {
    const auto turn = tuner.next();
    tuner.report(turn.candidate, turn.candidate == 0 ? first[told++] : 8.0);
  }
  CHECK(tuner.next().candidate == 0);
}

TEST_CASE("while times are on their way the first candidate serves, untimed") {
  MatmulTuner tuner(2);
  for (int turn = 0; turn < 6; ++turn) CHECK(tuner.next().timed);
  CHECK(tuner.next().candidate == 0);
  CHECK_FALSE(tuner.next().timed);
  CHECK_FALSE(tuner.decided());
  tuner.report(1, 0.5);
  CHECK(tuner.next().candidate == 1);
  CHECK_FALSE(tuner.decided());
  for (int told = 0; told < 2; ++told) tuner.report(1, 0.5);
  for (int told = 0; told < 3; ++told) tuner.report(0, 1.0);
  CHECK(tuner.decided());
  CHECK(tuner.next().candidate == 1);
}

TEST_CASE("a turn that was not timed is given again; a candidate that cannot is left out") {
  MatmulTuner tuner(2);
  CHECK(tuner.next().candidate == 0);
  tuner.forget(0);
  CHECK(tuner.next().candidate == 0);
  CHECK(tuner.fastest() == 0);
  tuner.drop(0);
  CHECK(tuner.fastest() == 1);
  CHECK(tune(tuner, {0.1, 1.0}) == std::vector<int>{0, 3});
  CHECK(tuner.next().candidate == 1);
  tuner.drop(1);  // nobody else is left
  CHECK(tuner.next().candidate == 1);
}
