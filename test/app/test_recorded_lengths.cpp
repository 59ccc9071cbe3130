// scripts/bench/recorded_lengths.py.

#include <sys/wait.h>

#include <cstdlib>
#include <string>

#include "small_run.h"
#include "support/catch.h"
#include "support/temporary_folder.h"

using Catch::Matchers::ContainsSubstring;
using namespace verlcpp::test;

namespace {

/// The script with a folder as its working folder.
Outcome record(const TemporaryFolder& folder, const std::string& arguments) {
  const std::string script = VERLCPP_QUICKSTART "/../bench/recorded_lengths.py";
  const std::string command =
      "cd '" + folder.path() + "' && python3 '" + script + "' " + arguments + " >out 2>err";
  const int status = std::system(command.c_str());
  return {.code = WEXITSTATUS(status),
          .out = file_text(folder.path() + "/out"),
          .err = file_text(folder.path() + "/err")};
}

}  // namespace

TEST_CASE("a recording of given lengths comes with its overrides, for the shell") {
  const TemporaryFolder folder;
  folder.write("lengths.json", "[4, 5, 6, 7]");
  const Outcome outcome = record(folder, "lengths.json 'a b.jsonl' --n 2");
  CHECK(outcome.err.empty());
  CHECK(outcome.code == 0);
  CHECK_THAT(outcome.out,
             ContainsSubstring(" 'actor_rollout_ref.rollout.replay_path=a b.jsonl' ") &&
                 ContainsSubstring(" data.train_batch_size=2 ") &&
                 ContainsSubstring(" trainer.total_training_steps=1\n"));
  CHECK_THAT(file_text(folder.path() + "/a b.jsonl"), ContainsSubstring("\"group1\""));
}

TEST_CASE("what the script cannot do is one line, and the lengths stay") {
  const TemporaryFolder folder;
  folder.write("lengths.json", "[4, 5, 6, 7]");
  folder.write("torn.json", "[4, 5");
  const auto refusal = [&](const std::string& arguments) {
    const Outcome outcome = record(folder, arguments);
    CHECK(outcome.code == 1);
    CHECK(outcome.out.empty());
    CHECK(outcome.err.find('\n') + 1 == outcome.err.size());
    return outcome.err;
  };
  CHECK(refusal("none.json x.jsonl") == "none.json: cannot be read: No such file or directory\n");
  CHECK_THAT(refusal("torn.json x.jsonl"), ContainsSubstring("torn.json: is not JSON: "));
  CHECK(refusal("lengths.json none/x") == "none/x: cannot be written: No such file or directory\n");
  CHECK_THAT(refusal("lengths.json ./lengths.json"),
             ContainsSubstring("must be a file of its own"));
  CHECK(file_text(folder.path() + "/lengths.json") == "[4, 5, 6, 7]");
}
