#include <cmath>

#include "algo/advantage.h"
#include "support/catch.h"

using namespace verlcpp::algo;

namespace {
using Names = std::vector<std::string>;
using Scores = std::vector<double>;
}  // namespace

TEST_CASE("GRPO: unbiased standard deviation, groups by uid in any order") {
  // a: 1, 0, 2: mean 1, std 1. b: 3, 7: mean 5, std sqrt(8).
  const auto out = grpo_advantage(Scores{1, 3, 0, 7, 2}, Names{"a", "b", "a", "b", "a"}, true);
  const double b = 2 / (std::sqrt(8.0) + 1e-6);
  CHECK(out[0] == 0);
  CHECK(out[1] == Approx(-b).epsilon(1e-14));
  CHECK(out[2] == Approx(-1 / 1.000001).epsilon(1e-14));
  CHECK(out[3] == Approx(b).epsilon(1e-14));
  CHECK(out[4] == Approx(1 / 1.000001).epsilon(1e-14));
}

TEST_CASE("GRPO without the standard deviation is Dr.GRPO") {
  CHECK(grpo_advantage(Scores{3, 7}, Names{"x", "x"}, false) == Scores{-2, 2});
}

TEST_CASE("GRPO: a group of one keeps its score") {
  CHECK(grpo_advantage(Scores{3}, Names{"x"}, false) == Scores{3});
  CHECK(grpo_advantage(Scores{3}, Names{"x"}, true)[0] == Approx(3 / 1.000001).epsilon(1e-14));
}

TEST_CASE("GRPO: equal scores have no advantage") {
  CHECK(grpo_advantage(Scores{4, 4, 4}, Names{"x", "x", "x"}, true) == Scores{0, 0, 0});
}

TEST_CASE("GRPO needs a group for every score") {
  CHECK_THROWS_AS(grpo_advantage(Scores{1, 2}, Names{"x"}, true), std::logic_error);
}
