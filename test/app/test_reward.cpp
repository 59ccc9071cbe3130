#include <unistd.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "child.h"
#include "small_run.h"
#include "support/catch.h"

using namespace verlcpp::test;
using Catch::Matchers::ContainsSubstring;
using nlohmann::json;

namespace {

const std::string kCustom = "reward.custom_reward_function.";

/// The metrics of a step, from 0.
json metrics(const TemporaryFolder& folder, int step) {
  std::istringstream lines(file_text(folder.path() + "/logs/run.jsonl"));
  std::string line;
  for (int i = 0; i <= step; ++i) std::getline(lines, line);
  return json::parse(line)["data"];
}

}  // namespace

TEST_CASE("a user's compute_score.py scores the responses, unchanged from verl") {
  const TemporaryFolder folder;
  const std::string file = folder.write("score.py", R"(
print("loaded")
def judge(data_source, solution_str, ground_truth, extra_info=None, bonus=0.0):
    print("scored")
    assert data_source == "verlcpp/cycle" and ground_truth[1] == " "
    return {"score": 0.5 + bonus, "acc": True, "length": len(solution_str), "pred": solution_str}
)");
  const Outcome outcome =
      expect_success(quickstart(folder.path(), 2,
                                {kCustom + "path=" + file, kCustom + "name=judge",
                                 "+" + kCustom + "reward_kwargs.bonus=0.25"}));
  CHECK_THAT(outcome.out, ContainsSubstring("reward program: loaded"));
  const json row = metrics(folder, 1);
  CHECK(row["critic/score/min"] == 0.75);
  CHECK(row["critic/score/max"] == 0.75);
  CHECK(row["reward/acc/mean"] == 1.0);
  CHECK(row["reward/length/mean"] > 0);
  CHECK(row["reward/failures"] == 0.0);
  CHECK(row["reward/restarts"] == 0.0);
}

TEST_CASE("one that raises ends the run with its row, or scores 0 as configured") {
  const TemporaryFolder folder;
  const std::string file = folder.write("score.py", R"(
calls = 0
def compute_score(data_source, solution_str, ground_truth, extra_info=None):
    global calls
    calls += 1
    if calls == 3: raise ValueError("not my kind of answer")
    return 1
)");
  const Outcome stopped = run_binary(quickstart(folder.path(), 2, {kCustom + "path=" + file}));
  CHECK(stopped.code == 2);
  CHECK_THAT(stopped.err, ContainsSubstring("train.jsonl:"));
  CHECK_THAT(stopped.err, ContainsSubstring(", response 2): ValueError: not my kind of answer"));
  CHECK_THAT(stopped.err, ContainsSubstring("on_failure=zero"));
  const TemporaryFolder second;
  const Outcome survived = expect_success(
      quickstart(second.path(), 2, {kCustom + "path=" + file, kCustom + "on_failure=zero"}));
  CHECK_THAT(survived.err, ContainsSubstring("not my kind of answer"));
  CHECK(metrics(second, 0)["reward/failures"] == 1.0);
  CHECK(metrics(second, 0)["critic/score/mean"] == 15.0 / 16);
  CHECK(metrics(second, 1)["reward/failures"] == 0.0);
}

TEST_CASE("a file that cannot be loaded is known before any weight is") {
  const TemporaryFolder folder;
  const std::string file = folder.write("score.py", "import nothing_of_that_name\n");
  auto arguments = quickstart(folder.path(), 1, {kCustom + "path=" + file});
  arguments.insert(arguments.begin(), "--dry-run");
  const Outcome broken = run_binary(arguments);
  CHECK(broken.code == 2);
  CHECK_THAT(broken.err, ContainsSubstring("No module named 'nothing_of_that_name'"));
  const Outcome missing =
      run_binary(quickstart(folder.path(), 1, {kCustom + "path=" + file + "x"}));
  CHECK(missing.code == 2);
  CHECK_THAT(missing.err, ContainsSubstring("there is no such file"));
}

TEST_CASE("the dapo manager takes its buffer from reward_kwargs, and says what is wrong in it") {
  const TemporaryFolder folder;
  const std::string buffer = "+reward.reward_kwargs.overlong_buffer_cfg.";
  std::vector<std::string> dapo{"reward.reward_manager.name=dapo", buffer + "enable=True",
                                buffer + "len=1000", buffer + "penalty_factor=1.0",
                                buffer + "log=True"};
  const Outcome incomplete = run_binary(quickstart(folder.path(), 1, dapo));
  CHECK(incomplete.code == 2);
  CHECK_THAT(incomplete.err, ContainsSubstring("reward.reward_kwargs.max_resp_len"));
  dapo.push_back("+reward.reward_kwargs.max_resp_len=1000");
  expect_success(quickstart(folder.path(), 1, dapo));
  const json row = metrics(folder, 0);
  CHECK(row["reward/overlong/mean"] == 1.0);  // the buffer begins with the first token
  const double penalty = row["response_length/mean"].get<double>() / 1000;
  CHECK(row["reward/overlong_reward/mean"].get<double>() == Approx(-penalty));
  CHECK(row["critic/score/mean"].get<double>() ==
        Approx(row["reward/acc/mean"].get<double>() - penalty));
  const Outcome unknown =
      run_binary(quickstart(folder.path(), 1, {"reward.reward_manager.name=prime"}));
  CHECK(unknown.code == 2);
  CHECK_THAT(unknown.err, ContainsSubstring("valid: naive, dapo, gdpo, remote"));
}

TEST_CASE("a killed run leaves no reward program behind") {
  const TemporaryFolder folder;
  const std::string file = folder.write("score.py", R"(
import os, time
def compute_score(data_source, solution_str, ground_truth, extra_info=None):
    with open(__file__ + ".pid", "w") as f:
        f.write(str(os.getpid()) + "\n")
    time.sleep(60)
)");
  Child child(quickstart(folder.path(), 1, {kCustom + "path=" + file}));
  const auto pid = [&] { return file_text(file + ".pid"); };
  REQUIRE(child.wait_until([&] { return pid().ends_with('\n'); }));
  child.signal(9);
  child.wait();
  const std::string number = pid().substr(0, pid().size() - 1);
  bool gone = false;  // or a zombie until init has taken note of it
  for (int i = 0; i < 2000 && !gone; ++i) {
    std::istringstream stat(file_text("/proc/" + number + "/stat"));
    std::string first, name, state;
    gone = !(stat >> first >> name >> state) || state == "Z";
    ::usleep(1000);
  }
  CHECK(gone);
}
