#include <cmath>

#include "base/error.h"
#include "support/catch.h"
#include "train/lr_schedule.h"

using namespace verlcpp;
using verlcpp::train::LrSchedule;

namespace {

/// 4 steps of warm-up from 1 to 9, decay to 1 at step 12.
LrSchedule schedule(const char* style) {
  return {.lr = 9,
          .min_lr = 1,
          .warmup_init = 1,
          .warmup_steps = 4,
          .decay_steps = 12,
          .decay_style = style};
}

}  // namespace

TEST_CASE("Every style warms up linearly, and the step after the last one has the full rate") {
  for (const char* style : {"constant", "linear", "cosine", "inverse-square-root"}) {
    INFO(style);
    const LrSchedule lr = schedule(style);
    CHECK(lr.at(0) == 1);
    CHECK(lr.at(1) == 3);
    CHECK(lr.at(3) == 7);
    CHECK(lr.at(4) == 9);
  }
}

TEST_CASE("Constant stays, also past the decay steps") {
  CHECK(schedule("constant").at(5) == 9);
  CHECK(schedule("constant").at(1000) == 9);
}

TEST_CASE("Linear decay") {
  const LrSchedule lr = schedule("linear");
  CHECK(lr.at(6) == 7);
  CHECK(lr.at(8) == 5);
  CHECK(lr.at(12) == 1);
  CHECK(lr.at(13) == 1);
}

TEST_CASE("Cosine decay") {
  const LrSchedule lr = schedule("cosine");
  CHECK(lr.at(6) == Approx(1 + 8 * (0.5 + std::sqrt(2.0) / 4)).epsilon(1e-14));
  CHECK(lr.at(8) == Approx(5).epsilon(1e-14));
  CHECK(lr.at(12) == Approx(1).epsilon(1e-14));
  CHECK(lr.at(100) == 1);
}

TEST_CASE("Inverse square root of the step, from the end of the warm-up, at least min_lr") {
  LrSchedule lr = schedule("inverse-square-root");
  CHECK(lr.at(9) == Approx(9 * 2.0 / 3).epsilon(1e-14));
  lr.decay_steps = 1000;
  CHECK(lr.at(100) == Approx(1.8).epsilon(1e-14));
  CHECK(lr.at(900) == 1);  // 0.6 is below min_lr
  lr.decay_steps = 12;
  CHECK(lr.at(13) == 1);
}

TEST_CASE("Without a warm-up the first update has the full rate") {
  for (const char* style : {"constant", "linear", "cosine", "inverse-square-root"}) {
    INFO(style);
    LrSchedule lr = schedule(style);
    lr.warmup_steps = 0;
    CHECK(lr.at(0) == 9);
  }
  LrSchedule lr = schedule("linear");
  lr.warmup_steps = 0;
  CHECK(lr.at(3) == 7);
}

TEST_CASE("What a schedule refuses") {
  CHECK_THROWS_AS(schedule("exponential").at(6), ConfigError);
  CHECK_THROWS_AS(schedule("linear").at(-1), std::logic_error);
  LrSchedule lr = schedule("linear");
  lr.warmup_steps = lr.decay_steps = 0;
  CHECK_THROWS_AS(lr.at(0), std::logic_error);
}
