#include <fstream>

#include "reward/manager.h"
#include "support/catch.h"
#include "support/temporary_folder.h"

using namespace verlcpp;
using namespace verlcpp::reward;

namespace {

data::PromptRow row(const std::string& source, const std::string& truth) {
  data::PromptRow made;
  made.data_source = source;
  made.ground_truth = truth;
  made.origin = "a.jsonl:1";
  return made;
}

}  // namespace

TEST_CASE("the overlong penalty grows linearly through the buffer and beyond") {
  const OverlongBuffer buffer{.max_resp_len = 20, .len = 4, .penalty_factor = 2, .log = true};
  CHECK(overlong_reward(buffer, 1) == 0);
  CHECK(overlong_reward(buffer, 16) == 0);
  CHECK(overlong_reward(buffer, 17) == -0.5);
  CHECK(overlong_reward(buffer, 20) == -2);
  CHECK(overlong_reward(buffer, 24) == -4);
}

TEST_CASE("dapo adds the penalty and its extras, naive does not") {
  const data::PromptRow math = row("math", "7");
  const std::vector<Sample> samples{
      {.row = &math, .response = "Answer: 7", .response_length = 18, .uid = "u", .number = 0},
      {.row = &math, .response = "Answer: 7", .response_length = 3, .uid = "u", .number = 1}};
  ManagerOptions options;
  options.kind = ManagerKind::kDapo;
  options.overlong = OverlongBuffer{.max_resp_len = 20, .len = 4, .penalty_factor = 1, .log = true};
  Manager dapo(options, [] {});
  const auto rewards = dapo.score(samples, [] {});
  CHECK(rewards[0].score == 0.5);
  REQUIRE(rewards[0].extras.size() == 5);
  CHECK(rewards[0].extras[0].number == 1.0);  // score: without the penalty
  CHECK(rewards[0].extras[3].name == "overlong_reward");
  CHECK(rewards[0].extras[3].number == -0.5);
  CHECK(rewards[0].extras[4].name == "overlong");
  CHECK(rewards[0].extras[4].json == "true");
  CHECK(rewards[1].score == 1);
  CHECK(rewards[1].extras[4].json == "false");
  options.overlong->log = false;
  CHECK(Manager(options, [] {}).score(samples, [] {})[0].extras.size() == 3);
  options.kind = ManagerKind::kNaive;
  CHECK(Manager(options, [] {}).score(samples, [] {})[0].score == 1);
}

TEST_CASE("a program takes any source and sees extra_info as verl's managers hand it on") {
  const test::TemporaryFolder folder;
  const std::string path = folder.path() + "/score.py";
  std::ofstream(path) << R"(
import json
def compute_score(data_source, solution_str, ground_truth, extra_info):
    return {"score": 1, "seen": json.dumps([ground_truth, extra_info], sort_keys=True)}
)";
  data::PromptRow mine = row("mine", "7");
  mine.ground_truth_json = "7";
  mine.extra_json = R"({"index": 1})";
  const auto seen = [&](ManagerKind kind) {
    ManagerOptions options;
    options.kind = kind;
    options.experiment_name = "e";
    options.program = ProgramOptions{.path = path, .name = "compute_score"};
    Manager manager(options, [] {});
    CHECK(manager.why_not_scored(mine) == "");
    const std::vector<Sample> samples{
        {.row = &mine, .response = "x", .response_length = 1, .uid = "u", .number = 0}};
    return manager.score(samples, [] {}).at(0).extras.at(1).json;
  };
  CHECK(seen(ManagerKind::kNaive) ==
        R"("[7, {\"index\": 1, \"num_turns\": 2, \"rollout_reward_scores\": {}}]")");
  CHECK(seen(ManagerKind::kDapo) == R"("[7, {\"index\": 1}]")");
  CHECK(seen(ManagerKind::kGdpo) == R"("[7, {\"experiment_name\": \"e\", \"index\": 1}]")");
}
