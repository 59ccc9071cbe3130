#include <cmath>

#include "algo/kl.h"
#include "base/error.h"
#include "support/catch.h"

using namespace verlcpp;
using namespace verlcpp::algo;

namespace {

double slope(const char* type, double log_prob, double ref) {
  const double h = 1e-6;
  return (kl_penalty(type, log_prob + h, ref).value - kl_penalty(type, log_prob - h, ref).value) /
         (2 * h);
}

}  // namespace

TEST_CASE("KL values worked by hand, d = -0.5") {
  for (const char* type : {"kl", "k1"}) CHECK(kl_penalty(type, -1.5, -1).value == -0.5);
  CHECK(kl_penalty("abs", -1.5, -1).value == 0.5);
  for (const char* type : {"mse", "k2"}) CHECK(kl_penalty(type, -1.5, -1).value == 0.125);
  for (const char* type : {"low_var_kl", "k3"}) {
    CHECK(kl_penalty(type, -1.5, -1).value == Approx(std::exp(0.5) - 1.5).epsilon(1e-14));
  }
}

TEST_CASE("KL gradients agree with finite differences off the corners") {
  for (const char* type : {"kl", "k1", "abs", "mse", "k2", "low_var_kl", "k3"}) {
    for (double d : {-1.9, -0.3, 0.4, 2.5}) {
      INFO(type << ", d = " << d);
      CHECK(kl_penalty(type, -2 + d, -2).d_log_prob ==
            Approx(slope(type, -2 + d, -2)).margin(1e-8));
    }
  }
}

TEST_CASE("The clamps of k3 hold the value and stop the gradient") {
  CHECK(kl_penalty("k3", -9, -1).value == 10);  // e^8 - 9 is above 10
  CHECK(kl_penalty("k3", -9, -1).d_log_prob == 0);
  CHECK(kl_penalty("k3", -1, -41).value == 10);  // x is held at -20: e^-20 + 19, then 10
  CHECK(kl_penalty("k3", -1, -41).d_log_prob == 0);
  CHECK(kl_penalty("k3", -1, -10).value == Approx(std::exp(-9.0) + 8).epsilon(1e-14));
  CHECK(kl_penalty("k3", -1, -10).d_log_prob == Approx(1 - std::exp(-9.0)).epsilon(1e-14));
}

TEST_CASE("A trailing plus keeps the value and takes the gradient of k2") {
  for (const std::string type : {"kl", "k1", "abs", "mse", "k2", "low_var_kl", "k3"}) {
    for (double d : {-8.0, -0.5, 0.25}) {
      INFO(type << ", d = " << d);
      CHECK(kl_penalty(type + "+", d - 1, -1).value == kl_penalty(type, d - 1, -1).value);
      CHECK(kl_penalty(type + "+", d - 1, -1).d_log_prob == d);
    }
  }
}

TEST_CASE("Unknown KL types are refused by key") {
  for (const char* type : {"kl", "k3+", "low_var_kl+", "mse"}) {
    CHECK_NOTHROW(check_kl_type(type, "algorithm.kl_penalty"));
  }
  for (const char* type : {"full", "", "+", "k3++", "K3"}) {
    CHECK_THROWS_AS(check_kl_type(type, "algorithm.kl_penalty"), ConfigError);
    CHECK_THROWS_AS(kl_penalty(type, 0, 0), std::logic_error);
  }
  try {
    check_kl_type("full", "algorithm.kl_penalty");
  } catch (const ConfigError& error) {
    CHECK(std::string(error.what()) ==
          "algorithm.kl_penalty is 'full'; valid are kl, k1, abs, mse, k2, low_var_kl, k3, each "
          "also with a trailing '+' (value as named, gradient of k2)");
  }
}

TEST_CASE("KL controllers") {
  KlController fixed("fixed", 0.2, 0.1, 100);
  fixed.update(5, 10);
  CHECK(fixed.value() == 0.2);

  KlController adaptive("adaptive", 0.2, 0.1, 100);
  adaptive.update(0.11, 10);  // error 0.1
  CHECK(adaptive.value() == Approx(0.2 * 1.01).epsilon(1e-14));
  adaptive.set_value(0.5);
  adaptive.update(5, 10);  // error held at 0.2
  CHECK(adaptive.value() == Approx(0.5 * 1.02).epsilon(1e-14));
  adaptive.set_value(0.5);
  adaptive.update(0, 10);  // error held at -0.2
  CHECK(adaptive.value() == Approx(0.5 * 0.98).epsilon(1e-14));

  CHECK_THROWS_AS(KlController("linear", 0.1, 0.1, 100), ConfigError);
  CHECK_THROWS_AS(KlController("adaptive", 0.1, 0.1, 0), ConfigError);
  CHECK_THROWS_AS(KlController("adaptive", 0.1, 0, 100), ConfigError);
  CHECK_NOTHROW(KlController("fixed", 0.1, 0, 0));
}
