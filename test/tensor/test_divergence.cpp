#include <limits>
#include <vector>

#include "support/catch.h"
#include "tensor/divergence.h"

using namespace verlcpp;

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

}  // namespace

TEST_CASE("differences are relative to the largest finite magnitude") {
  const std::vector<double> want{100, -kInf, 0, 1};
  CHECK(divergence(std::vector<double>{100, -kInf, 0.9, 1}, want, 0.01, 0, 1) == std::nullopt);
  CHECK(divergence(std::vector<double>{100, -kInf, 2, -9}, want, 0.01, 0, 1) ==
        Divergence{.count = 2, .first = 2, .largest = 0.1});
  CHECK(divergence(std::vector<double>{1e-3}, std::vector<double>{0}, 0.01, 0.2, 1) ==
        std::nullopt);
  CHECK(divergence(std::vector<double>{1e-2}, std::vector<double>{0}, 0.01, 0.2, 1).has_value());
  CHECK(divergence({}, {}, 0, 1, 1) == std::nullopt);
}

TEST_CASE("a column has a scale of its own") {
  const std::vector<double> got{1000, 1.5, 900, 1}, want{1000, 1, 900, 1};
  CHECK(divergence(got, want, 0.01, 0, 1) == std::nullopt);
  CHECK(divergence(got, want, 0.01, 0, 2) == Divergence{.count = 1, .first = 1, .largest = 0.5});
}

TEST_CASE("NaN meets NaN alone, infinity the same infinity alone") {
  const auto diverges = [](double got, double want) {
    return divergence(std::vector{got}, std::vector{want}, 0.5, 1, 1).has_value();
  };
  for (const double same : {kNaN, kInf, -kInf}) CHECK(!diverges(same, same));
  CHECK(diverges(kNaN, 1));
  CHECK(diverges(1, kNaN));
  CHECK(diverges(kInf, -kInf));
  CHECK(diverges(kInf, kNaN));
  CHECK(diverges(1e300, kInf));
  CHECK(divergence(std::vector{kNaN}, std::vector{1.0}, 0.5, 1, 1)->largest == kInf);
}
