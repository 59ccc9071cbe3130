#include <cmath>
#include <map>
#include <set>

#include "algo/response_statistics.h"
#include "support/catch.h"

using namespace verlcpp::algo;

namespace {

std::map<std::string, double> statistics(const std::vector<double>& values,
                                         const std::vector<std::string>& votes = {}) {
  std::map<std::string, double> by_name;
  for (const NamedStatistic& s :
       ResponseStatistics(static_cast<int64_t>(values.size())).of(values, votes)) {
    CHECK(by_name.emplace(s.name, s.value).second);
  }
  return by_name;
}

std::set<std::string> names(const std::map<std::string, double>& by_name) {
  std::set<std::string> all;
  for (const auto& [name, value] : by_name) all.insert(name);
  return all;
}

}  // namespace

TEST_CASE("the draws are numpy's: RandomState(42).choice(n, 12)") {
  CHECK(numpy_choice(4, 12, 42) == std::vector<int32_t>{2, 3, 0, 2, 2, 3, 0, 0, 2, 1, 2, 2});
  CHECK(numpy_choice(3, 12, 42) == std::vector<int32_t>{2, 0, 2, 2, 0, 0, 2, 1, 2, 2, 2, 2});
  CHECK(numpy_choice(10, 12, 42) == std::vector<int32_t>{6, 3, 7, 4, 6, 9, 2, 6, 7, 4, 3, 7});
  CHECK(numpy_choice(1, 3, 42) == std::vector<int32_t>{0, 0, 0});
}

TEST_CASE("one response has a mean alone") {
  const auto one = statistics({0.75}, {"\"a\""});
  CHECK(one == std::map<std::string, double>{{"mean@1", 0.75}});
}

TEST_CASE("sizes are 2, 4, 8, ... below n, and n") {
  CHECK(names(statistics({0, 1})) == std::set<std::string>{"mean@2", "std@2", "best@2/mean",
                                                           "best@2/std", "worst@2/mean",
                                                           "worst@2/std"});
  const auto six = names(statistics({0, 1, 0, 0, 1, 1}, {"1", "2", "1", "1", "2", "2"}));
  CHECK(six.size() == 2 + 3 * 6);
  for (const char* k : {"2", "4", "6"}) {
    for (const std::string name : {"best@", "worst@", "maj@"}) {
      CHECK(six.contains(name + k + "/mean"));
      CHECK(six.contains(name + k + "/std"));
    }
  }
}

TEST_CASE("mean and population standard deviation, worked by hand") {
  const auto two = statistics({0.0, 1.0});
  CHECK(two.at("mean@2") == 0.5);
  CHECK(two.at("std@2") == 0.5);
  const auto four = statistics({1.0, 0.0, 0.0, 3.0});
  CHECK(four.at("mean@4") == 1.0);
  CHECK(four.at("std@4") == Approx(std::sqrt(6.0 / 4)).epsilon(1e-15));
}

TEST_CASE("equal responses leave nothing to chance") {
  const auto equal = statistics({0.25, 0.25, 0.25}, {"\"a\"", "\"b\"", "\"a\""});
  for (const auto& [name, value] : equal) {
    INFO(name);
    CHECK(value == (name.find("std") == std::string::npos ? 0.25 : 0.0));
  }
}

TEST_CASE("a mean over draws is near what all draws give") {
  // Both responses drawn are wrong in one of four cases, right in one of four.
  const auto two = statistics({0.0, 1.0}, {"0", "1"});
  CHECK(two.at("best@2/mean") == Approx(0.75).margin(0.05));
  CHECK(two.at("worst@2/mean") == Approx(0.25).margin(0.05));
  // Of two different answers the first drawn one counts: either, as often.
  CHECK(two.at("maj@2/mean") == Approx(0.5).margin(0.05));
  // p(all of k draws are wrong) = (3/4)^k for one right response of four.
  const auto four = statistics({0.0, 0.0, 1.0, 0.0});
  CHECK(four.at("best@2/mean") == Approx(1 - 9.0 / 16).margin(0.05));
  CHECK(four.at("best@4/mean") == Approx(1 - 81.0 / 256).margin(0.05));
  CHECK(four.at("worst@2/mean") == Approx(1.0 / 16).margin(0.03));
}

TEST_CASE("the whole is verl's process_validation_metrics, run with numpy") {
  const auto got =
      statistics({0.0, 1.0, 0.25, 1.0, 0.5}, {"\"a\"", "\"b\"", "\"a\"", "\"c\"", "\"b\""});
  const std::map<std::string, double> want{
      {"mean@5", 0.55},          {"std@5", 0.39999999999999997},
      {"best@2/mean", 0.7565},   {"best@2/std", 0.331221602556355},
      {"worst@2/mean", 0.33975}, {"worst@2/std", 0.35427028876269034},
      {"maj@2/mean", 0.551},     {"maj@2/std", 0.40469000481850304},
      {"best@4/mean", 0.9255},   {"best@4/std", 0.19640455697360995},
      {"worst@4/mean", 0.14725}, {"worst@4/std", 0.22501097195470268},
      {"maj@4/mean", 0.4945},    {"maj@4/std", 0.3971394591324312},
      {"best@5/mean", 0.9535},   {"best@5/std", 0.1543947861813993},
      {"worst@5/mean", 0.104},   {"worst@5/std", 0.1733753154286965},
      {"maj@5/mean", 0.5085},    {"maj@5/std", 0.39153895080821777}};
  CHECK(names(got) == names(want));
  for (const auto& [name, value] : want) {
    INFO(name);
    CHECK(got.at(name) == Approx(value).epsilon(1e-12));
  }
}
