#include <map>
#include <set>

#include "reward/extras.h"
#include "support/catch.h"
#include "train/val_metrics.h"

using namespace verlcpp;
using namespace verlcpp::train;

namespace {

struct Answer {
  double score = 0;
  std::vector<data::RewardExtra> extras = {};
};

/// Trajectories of one prompt.
void add(std::vector<data::Trajectory>& all, const std::string& source,
         const std::vector<Answer>& answers) {
  const std::string uid = "v0-r" + std::to_string(all.size());
  for (const Answer& answer : answers) {
    data::Trajectory& t = all.emplace_back();
    t.uid = uid;
    t.data_source = source;
    t.reward = answer.score;
    t.reward_extras = answer.extras;
  }
}

std::set<std::string> names(const Metrics& metrics) {
  std::set<std::string> all;
  for (const auto& [name, value] : metrics.values()) all.insert(name);
  return all;
}

}  // namespace

TEST_CASE("validation: means over prompts, by data source; acc is the core variable") {
  using reward::extra;
  std::vector<data::Trajectory> all;
  add(all, "math", {{1, {extra("acc", true)}}});
  add(all, "plain", {{0.25}});
  add(all, "math", {{-1, {extra("acc", false)}}});
  add(all, "math", {{-1, {extra("acc", false)}}});
  add(all, "plain", {{0.75}});
  const Metrics got = validation_metrics(all, 1);
  CHECK(names(got) == std::set<std::string>{"val-core/math/acc/mean@1",
                                            "val-aux/math/reward/mean@1",
                                            "val-core/plain/reward/mean@1", "val-aux/num_turns/min",
                                            "val-aux/num_turns/max", "val-aux/num_turns/mean"});
  CHECK(got.at("val-core/math/acc/mean@1") == Approx(1.0 / 3));
  CHECK(got.at("val-aux/math/reward/mean@1") == Approx(-1.0 / 3));
  CHECK(got.at("val-core/plain/reward/mean@1") == 0.5);
  CHECK(got.at("val-aux/num_turns/mean") == 2);
}

TEST_CASE("validation: core are mean, maj and best over all responses; texts only vote") {
  using reward::extra;
  const auto answer = [](double acc, const std::string& pred) {
    return Answer{acc, {extra("acc", acc), extra("pred", pred)}};
  };
  std::vector<data::Trajectory> all;
  add(all, "s", {answer(1, "7"), answer(1, "7"), answer(1, "7"), answer(1, "7")});
  add(all, "s", {answer(0, "7"), answer(0, "8"), answer(0, "9"), answer(0, "8")});
  const Metrics got = validation_metrics(all, 4);
  std::set<std::string> core;
  for (const std::string& name : names(got)) {
    if (name.starts_with("val-core/")) core.insert(name);
    CHECK(name.find("/pred/") == std::string::npos);
  }
  CHECK(core == std::set<std::string>{"val-core/s/acc/mean@4", "val-core/s/acc/best@4/mean",
                                      "val-core/s/acc/best@4/std", "val-core/s/acc/maj@4/mean",
                                      "val-core/s/acc/maj@4/std"});
  // One prompt is always right, the other never.
  for (const char* name : {"val-core/s/acc/mean@4", "val-core/s/acc/best@4/mean",
                           "val-core/s/acc/maj@4/mean", "val-aux/s/acc/worst@2/mean"}) {
    INFO(name);
    CHECK(got.at(name) == 0.5);
  }
  CHECK(got.at("val-aux/s/acc/std@4") == 0);
}

TEST_CASE("validation: a response that a program could not score has an acc of 0 beside others") {
  using reward::extra;
  std::vector<data::Trajectory> all;
  add(all, "s", {{0}, {0}});  // the first prompt, too
  add(all, "s", {{1, {extra("acc", 1.0)}}, {0}});
  add(all, "none", {{0}, {0}});
  const Metrics got = validation_metrics(all, 2);
  CHECK(got.at("val-core/s/acc/mean@2") == 0.25);
  CHECK(got.at("val-aux/s/reward/mean@2") == 0.25);
  CHECK(got.at("val-core/none/reward/mean@2") == 0);
}

TEST_CASE("validation: a variable counts for the prompts whose responses all have its number") {
  using reward::extra;
  std::vector<data::Trajectory> all;
  add(all, "s", {{0, {extra("length", 2.0)}}, {0, {extra("length", 4.0)}}});
  add(all, "s", {{0, {extra("length", 9.0)}}, {0}});
  add(all, "s", {{1}, {1}});
  const Metrics got = validation_metrics(all, 2);
  CHECK(got.at("val-aux/s/length/mean@2") == 3);
  CHECK(got.at("val-core/s/reward/mean@2") == Approx(1.0 / 3));
}
