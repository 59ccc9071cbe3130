// --selftest-layout through the executable.

#include <filesystem>
#include <fstream>

#include "small_run.h"
#include "support/catch.h"

using Catch::Matchers::ContainsSubstring;
using namespace verlcpp::test;

namespace {

const std::string kA = "actor_rollout_ref.";
const std::string kMegatron = kA + "actor.megatron.";

/// The small quickstart with every key that makes a run write, below `folder`.
Outcome selftest(const std::string& folder, const std::vector<std::string>& more) {
  std::vector<std::string> all{"--selftest-layout",
                               kA + "rollout.record_path=" + folder + "/record.jsonl",
                               "trainer.logger=[console,file]", "trainer.save_freq=1"};
  all.insert(all.end(), more.begin(), more.end());
  return run_binary(quickstart(folder, 2, all));
}

std::vector<std::string> dtype(const std::string& name) {
  return {kMegatron + "dtype=" + name, kA + "ref.megatron.dtype=" + name};
}

std::string last_line(const std::string& text) {
  const size_t end = text.find_last_not_of('\n');
  return text.substr(text.rfind('\n', end) + 1);
}

}  // namespace

TEST_CASE("the user's configuration agrees under every layout; nothing is written") {
  for (const std::string name : {"float64", "float32"}) {
    const TemporaryFolder folder;
    const Outcome outcome = selftest(folder.path(), dtype(name));
    INFO(outcome.out << outcome.err);
    REQUIRE(outcome.code == 0);
    CHECK_THAT(outcome.out, ContainsSubstring("in " + name) &&
                                ContainsSubstring("of a rollout of the initial weights"));
    for (const char* row : {"  1  your own ", "TP 4, DP 1 CP 1 ", "DP 1 CP 3 ", "DP 8 CP 1 ",
                            "DCP on 6, limit ", "TP 2, DCP on 4, limit ", "micro-batches of 1 ",
                            ", no ZeRO-1 ", "trainer.n_gpus_per_node=8"}) {
      INFO(row);
      CHECK_THAT(outcome.out, ContainsSubstring(row));
    }
    CHECK_THAT(outcome.out, ContainsSubstring("not run: " + kMegatron +
                                              "tensor_model_parallel_size=8: must divide"));
    CHECK_THAT(last_line(outcome.out), ContainsSubstring(" layouts agree, largest difference "));
    CHECK(std::filesystem::is_empty(folder.path()));
  }
}

TEST_CASE("a self-test of the balanced scheduler") {
  const TemporaryFolder folder;
  auto more = dtype("float64");
  more.push_back(kMegatron + "dynamic_cp_scheduler=balanced");
  const Outcome outcome = selftest(folder.path(), more);
  INFO(outcome.out << outcome.err);
  REQUIRE(outcome.code == 0);
  CHECK_THAT(last_line(outcome.out), ContainsSubstring(" layouts agree, largest difference "));
}

TEST_CASE("a self-test of recorded samples with a reference, two epochs and TP of one's own") {
  const TemporaryFolder folder;
  std::string rows;
  for (int i = 0; i < 4; ++i) {
    rows += R"({"uid": "g)" + std::to_string(i / 2) +
            R"(", "prompt_ids": [1, 2], "response_ids": [3, 4, 5, 6, 7, 1], "reward": 1.0})"
            "\n";
  }
  const std::string file = folder.write("rows.jsonl", rows);
  const TemporaryFolder written;
  std::vector<std::string> more = dtype("float64");
  for (const std::string& o : std::vector<std::string>{
           kA + "rollout.name=replay", kA + "rollout.replay_path=" + file, kA + "rollout.n=2",
           "data.train_batch_size=2", kA + "actor.ppo_mini_batch_size=1", kA + "actor.ppo_epochs=2",
           kA + "actor.use_kl_loss=True", kA + "actor.kl_loss_type=abs",
           // One step is played back, whatever the run's number of them.
           "trainer.total_training_steps=100", kMegatron + "tensor_model_parallel_size=2",
           kMegatron + "context_parallel_size=1"}) {
    more.push_back(o);
  }
  const Outcome outcome = selftest(written.path(), more);
  INFO(outcome.out << outcome.err);
  REQUIRE(outcome.code == 0);
  CHECK_THAT(outcome.out,
             ContainsSubstring("4 samples (2 prompts x 2 responses of 2 to 6 tokens) recorded in " +
                               file + ", cut to several lengths, rewards drawn") &&
                 ContainsSubstring("optimizer steps: 4") &&
                 ContainsSubstring("the reference is 0.98 times the actor"));
  CHECK(std::filesystem::is_empty(written.path()));
}

TEST_CASE("--selftest-layout is documented, and goes with no other mode") {
  CHECK_THAT(run_binary({"--help"}).out, ContainsSubstring("--selftest-layout"));
  for (const char* other : {"--dry-run", "--plan=x.json", "--cfg=job", "--compare-dcp"}) {
    const Outcome outcome = run_binary({"--selftest-layout", other});
    INFO(other);
    CHECK(outcome.code == 2);
    CHECK_THAT(outcome.err, ContainsSubstring("--selftest-layout"));
  }
}
