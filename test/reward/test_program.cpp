#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <fstream>

#include "base/error.h"
#include "reward/manager.h"
#include "reward/program.h"
#include "support/catch.h"
#include "support/temporary_folder.h"

using namespace verlcpp;
using namespace verlcpp::reward;
using Catch::Matchers::ContainsSubstring;

namespace {

const auto kQuiet = [] {};

std::string write(const test::TemporaryFolder& folder, const std::string& name,
                  const std::string& text, bool executable = false) {
  const std::string path = folder.path() + "/" + name;
  std::ofstream(path) << text;
  if (executable) ::chmod(path.c_str(), 0755);
  return path;
}

ProgramOptions options_of(const std::string& path, bool zero = false, int timeout_ms = 20000) {
  return {.path = path,
          .name = "compute_score",
          .reward_kwargs = "{}",
          .timeout = std::chrono::milliseconds(timeout_ms),
          .zero_on_failure = zero};
}

std::vector<Question> questions(const std::vector<std::string>& responses) {
  std::vector<Question> all;
  for (const std::string& response : responses) {
    all.push_back({.data_source = "my/task",
                   .response = response,
                   .ground_truth_json = R"({"target": [1, "x"]})",
                   .extra_json = R"({"index": 3})",
                   .where = "train.jsonl:" + std::to_string(all.size() + 1)});
  }
  return all;
}

std::vector<double> scores(Program& program, const std::vector<std::string>& responses) {
  const auto asked = questions(responses);
  std::vector<double> out;
  for (const Reward& reward : program.ask(asked, kQuiet)) out.push_back(reward.score);
  return out;
}

/// What is said when the first of `responses` cannot be scored.
std::string failure(const ProgramOptions& options, const std::vector<std::string>& responses) {
  try {
    Program program(options, kQuiet);
    scores(program, responses);
  } catch (const DataError& e) {
    return e.what();
  }
  return "(no failure)";
}

/// Whose response says what is to happen.
const std::string kObedient = R"(
import os, sys, time
def compute_score(data_source, solution_str, ground_truth, extra_info=None):
    if solution_str == "raise": raise KeyError("no such thing")
    if solution_str == "exit": sys.exit(5)
    if solution_str == "die":
        print("last words", file=sys.stderr, flush=True)
        os._exit(7)
    if solution_str == "hang": time.sleep(60)
    if solution_str == "none": return None
    if solution_str == "text": return "1.0"
    if solution_str == "nan": return float("nan")
    if solution_str == "dict": return {"acc": True}
    return float(solution_str)
)";

bool no_children() { return ::waitpid(-1, nullptr, WNOHANG) == -1 && errno == ECHILD; }

}  // namespace

TEST_CASE("a user's compute_score is called as verl calls it") {
  const test::TemporaryFolder folder;
  const std::string path = write(folder, "score.py", R"(
import sys
print("printed while loading")
def compute_score(data_source, solution_str, ground_truth, extra_info=None, weight=1.0):
    print("printed while scoring")
    assert data_source == "my/task" and ground_truth == {"target": [1, "x"]}
    assert extra_info == {"index": 3}
    if solution_str == "tuple": return (0.5, "why")
    if solution_str == "bool": return True
    return {"score": weight * len(solution_str), "acc": False, "pred": solution_str, "n": [1]}
)");
  ProgramOptions options = options_of(path);
  options.reward_kwargs = R"({"weight": 2})";
  {
    Program program(options, kQuiet);
    const auto asked = questions({"tuple", "bool", "h\xC3\xA9llo \"\n\xE2\x9C\x93", ""});
    const auto rewards = program.ask(asked, kQuiet);
    REQUIRE(rewards.size() == 4);
    CHECK(rewards[0].score == 0.5);
    CHECK(rewards[1].score == 1);
    CHECK(rewards[1].extras.at(0).json == "true");
    CHECK(rewards[2].score == 18);  // nine characters
    REQUIRE(rewards[2].extras.size() == 4);
    CHECK(rewards[2].extras[1].name == "acc");
    CHECK(rewards[2].extras[1].number == 0.0);
    CHECK(rewards[2].extras[2].json == "\"h\xC3\xA9llo \\\"\\n\xE2\x9C\x93\"");
    CHECK(rewards[2].extras[3].json == "[1]");
    CHECK(rewards[3].score == 0);
    CHECK(program.failures() == 0);
    CHECK(program.restarts() == 0);
  }
  CHECK(no_children());
}

TEST_CASE("an async compute_score has all questions under way at once") {
  const test::TemporaryFolder folder;
  const std::string path = write(folder, "score.py", R"(
import asyncio
async def judge(data_source, solution_str, ground_truth, extra_info=None):
    await asyncio.sleep(0.3 if solution_str == "0" else 0.2)
    return float(solution_str)
)");
  ProgramOptions options = options_of(path);
  options.name = "judge";
  Program program(options, kQuiet);
  std::vector<std::string> responses;
  std::vector<double> expected;
  for (int i = 0; i < 40; ++i) {
    responses.push_back(std::to_string(i));
    expected.push_back(i);
  }
  const auto start = std::chrono::steady_clock::now();
  CHECK(scores(program, responses) == expected);
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(4));  // 8 s one by one
}

TEST_CASE("a response that cannot be scored ends the run, with its row and the reason") {
  const test::TemporaryFolder folder;
  const std::string path = write(folder, "score.py", kObedient);
  const std::string raised = failure(options_of(path), {"1", "raise"});
  CHECK_THAT(raised,
             ContainsSubstring("reward.custom_reward_function.path=" + path +
                               " (compute_score): train.jsonl:2: KeyError: 'no such thing'"));
  CHECK_THAT(raised, ContainsSubstring("line 4, in compute_score"));
  CHECK_THAT(raised, ContainsSubstring("on_failure=zero scores such a response 0 and goes on."));
  CHECK_THAT(failure(options_of(path), {"exit"}), ContainsSubstring("SystemExit: 5"));
  CHECK_THAT(failure(options_of(path), {"1", "die"}),
             ContainsSubstring("train.jsonl:2: it ended with exit code 7\nIts last lines on "
                               "stderr:\n  last words"));
  CHECK_THAT(failure(options_of(path, false, 1000), {"1", "hang"}),
             ContainsSubstring("train.jsonl:2: no answer for 1.0 s "
                               "(reward.custom_reward_function.timeout_s)"));
  CHECK_THAT(failure(options_of(path), {"none"}), ContainsSubstring("the result is null; valid: "));
  CHECK_THAT(failure(options_of(path), {"text"}), ContainsSubstring("the result is \"1.0\""));
  CHECK_THAT(failure(options_of(path), {"nan"}), ContainsSubstring("the result is \"nan\""));
  CHECK_THAT(failure(options_of(path), {"dict"}),
             ContainsSubstring("the result is {\"acc\":true}; valid: "));
  CHECK(no_children());
}

TEST_CASE("with on_failure=zero such responses score 0, and a new process takes the rest") {
  const test::TemporaryFolder folder;
  Program program(options_of(write(folder, "score.py", kObedient), true, 1000), kQuiet);
  CHECK(scores(program, {"1", "raise", "2", "none", "3"}) == std::vector<double>{1, 0, 2, 0, 3});
  CHECK(program.failures() == 2);
  CHECK(program.restarts() == 0);
  CHECK(scores(program, {"1", "die", "2", "hang", "3"}) == std::vector<double>{1, 0, 2, 0, 3});
  CHECK(program.failures() == 4);
  CHECK(program.restarts() == 2);
  CHECK_THROWS_WITH(scores(program, std::vector<std::string>(9, "die")),
                    ContainsSubstring("It was the 8th end in a row without an answer."));
}

TEST_CASE("a file that cannot be loaded is said at the start") {
  const test::TemporaryFolder folder;
  CHECK_THAT(failure(options_of(write(folder, "a.py", "def compute_score(:\n"), true), {}),
             ContainsSubstring("cannot be loaded: SyntaxError: "));
  CHECK_THAT(failure(options_of(write(folder, "b.py", "import nothing_of_that_name\n"), true), {}),
             ContainsSubstring("ModuleNotFoundError: No module named 'nothing_of_that_name'"));
  CHECK_THAT(failure(options_of(write(folder, "c.py", "def score(): pass\n"), true), {}),
             ContainsSubstring("there is no compute_score in it; what it has: score"));
  ProgramOptions hangs = options_of(write(folder, "d.py", "import time\ntime.sleep(60)\n"), true);
  hangs.load_timeout = std::chrono::milliseconds(300);
  CHECK_THAT(failure(hangs, {}), ContainsSubstring("not done after 0.3 s"));
  CHECK_THAT(failure(options_of(folder.path() + "/none.sh"), {}),
             ContainsSubstring("cannot be executed: No such file or directory"));
  CHECK(no_children());
}

TEST_CASE("any executable may speak the protocol") {
  const test::TemporaryFolder folder;
  const std::string path = write(folder, "score.sh", R"(#!/bin/sh
while read -r line; do
  id=${line#*\"id\":}; id=${id%%,*}
  echo "{\"id\": $id, \"result\": {\"score\": $id, \"x\": \"y\"}}"
done
)",
                                 true);
  Program program(options_of(path), kQuiet);
  CHECK(scores(program, {"a", "b"}) == std::vector<double>{0, 1});
  CHECK(scores(program, {"c"}) == std::vector<double>{2});
  CHECK(scores(program, {}).empty());
}

TEST_CASE("garbage, early ends and floods of an executable are reported") {
  const test::TemporaryFolder folder;
  const auto script = [&](const std::string& body) {
    return options_of(write(folder, "s.sh", "#!/bin/sh\n" + body, true));
  };
  CHECK_THAT(failure(script("echo hello; cat >/dev/null\n"), {"a"}),
             ContainsSubstring("train.jsonl:1: it wrote what is no answer to a question: hello"));
  CHECK_THAT(failure(script("echo '{\"id\": 99, \"result\": 1}'; cat >/dev/null\n"), {"a"}),
             ContainsSubstring("no answer to a question: {\"id\": 99"));
  CHECK_THAT(failure(script("echo '{\"id\": 0, \"result\": 1e999}'; cat >/dev/null\n"), {"a"}),
             ContainsSubstring("no answer"));
  // Printing this back would overflow the stack.
  const std::string deep = "head -c 100000 /dev/zero | tr '\\0' ";
  CHECK_THAT(failure(script("printf '{\"id\": 0, \"result\": {\"score\": 1, \"x\": '; " + deep +
                            "'['; " + deep + "']'; echo '}}'; cat >/dev/null\n"),
                     {"a"}),
             ContainsSubstring("no answer to a question: {\"id\": 0"));
  CHECK_THAT(failure(script("yes x | tr -d '\\n'\n"), {"a"}),
             ContainsSubstring("it wrote a line of more than 16777216 bytes"));
  CHECK_THAT(failure(script("echo why >&2; kill -SEGV $$\n"), {"a"}),
             ContainsSubstring("signal 11 (Segmentation fault)\nIts last lines on stderr:\n  why"));
  // More than a pipe holds, to one that reads nothing and ends.
  CHECK_THAT(failure(script("exit 3\n"), {std::string(1 << 20, 'x')}),
             ContainsSubstring("it ended "));
  CHECK(no_children());
}

TEST_CASE("large questions and answers pass, and what it starts is ended with it") {
  const test::TemporaryFolder folder;
  const std::string path = write(folder, "score.py", R"(
import os, subprocess, sys
child = subprocess.Popen(["sleep", "60"])
def compute_score(data_source, solution_str, ground_truth, extra_info=None):
    print("e" * 100000, file=sys.stderr)
    return {"score": len(solution_str), "pid": child.pid, "echo": solution_str}
)");
  double pid = 0;
  {
    Program program(options_of(path), kQuiet);
    const auto asked = questions(std::vector<std::string>(8, std::string(1 << 20, 'y')));
    const auto rewards = program.ask(asked, kQuiet);
    REQUIRE(rewards.size() == 8);
    CHECK(rewards[7].score == 1 << 20);
    CHECK(rewards[7].extras.at(2).json.size() == (1 << 20) + 2);
    pid = rewards[0].extras.at(1).number.value();
    CHECK(::kill(static_cast<pid_t>(pid), 0) == 0);
  }
  bool gone = false;  // killed; a moment until init has taken note of it
  for (int i = 0; i < 200 && !gone; ++i) {
    std::ifstream stat("/proc/" + std::to_string(static_cast<long>(pid)) + "/stat");
    std::string number, name, state;
    gone = !(stat >> number >> name >> state) || state == "Z";
    ::usleep(10000);
  }
  CHECK(gone);
}

TEST_CASE("one that ended between two steps is started again without blame") {
  const test::TemporaryFolder folder;
  const std::string path = write(folder, "score.sh", R"(#!/bin/sh
read -r line
id=${line#*\"id\":}; id=${id%%,*}
echo "{\"id\": $id, \"result\": 1}"
)",
                                 true);
  Program program(options_of(path), kQuiet);
  CHECK(scores(program, {"a"}) == std::vector<double>{1});
  ::usleep(100000);
  CHECK(scores(program, {"b"}) == std::vector<double>{1});
  CHECK(program.restarts() == 1);
  CHECK(program.failures() == 0);
}
