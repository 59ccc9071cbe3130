// kill -9 at random moments and in saves, then the same command again: nothing lost, nothing
// doubled.

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <random>
#include <thread>

#include "child.h"
#include "small_run.h"
#include "support/catch.h"

using Catch::Matchers::ContainsSubstring;
using namespace verlcpp::test;
namespace fs = std::filesystem;

namespace {

constexpr int kSteps = 12;
constexpr const char* kWeights =
    "/checkpoints/global_step_12/actor/model/huggingface/model.safetensors";
constexpr const char* kOptimizer =
    "/checkpoints/global_step_12/actor/optimizer/dist_ckpt/optimizer.safetensors";

std::vector<std::string> durable_run(const std::string& folder) {
  return quickstart(folder, kSteps,
                    {"trainer.save_freq=2", "trainer.max_actor_ckpt_to_keep=2",
                     "algorithm.use_kl_in_reward=True", "algorithm.kl_ctrl.type=adaptive",
                     "actor_rollout_ref.rollout.record_path=" + folder + "/record.jsonl"});
}

unsigned number_from(const char* variable, unsigned otherwise) {
  const char* text = std::getenv(variable);
  return text == nullptr ? otherwise : static_cast<unsigned>(std::strtoul(text, nullptr, 10));
}

bool saving(const std::string& folder) {
  const std::vector<std::string> beside = strays(folder);
  return std::any_of(beside.begin(), beside.end(),
                     [](const std::string& name) { return name.ends_with(".tmp"); });
}

void check_same_end(const std::string& folder, const std::string& whole) {
  CHECK(metrics_lines(folder) == metrics_lines(whole));
  CHECK(file_text(folder + "/record.jsonl") == file_text(whole + "/record.jsonl"));
  for (const char* file : {kWeights, kOptimizer}) {
    INFO(file);
    const std::string want = file_text(whole + file);
    CHECK_FALSE(want.empty());
    CHECK((file_text(folder + file) == want));  // not printed
  }
  CHECK(saved_steps(folder) == std::vector<int>{10, 12});
  CHECK(strays(folder).empty());
}

}  // namespace

// VERLCPP_KILLS and VERLCPP_KILL_SEED repeat or extend a run of it.
TEST_CASE("killed at fifty moments, the same command reaches the uninterrupted run's end") {
  const TemporaryFolder whole, parts;
  const auto start = std::chrono::steady_clock::now();
  expect_success(durable_run(whole.path()));
  std::chrono::duration<double> one_run = std::chrono::steady_clock::now() - start;
  check_same_end(whole.path(), whole.path());

  const unsigned seed = number_from("VERLCPP_KILL_SEED", std::random_device{}());
  const unsigned kills = number_from("VERLCPP_KILLS", 50);
  std::printf("VERLCPP_KILL_SEED=%u, one run takes %.2f s\n", seed, one_run.count());
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> moment(0, 1);
  unsigned killed = 0, torn_saves = 0, cut_rows = 0, ends = 0;
  // What the kills are for did happen: a torn save, a row beyond the last checkpoint.
  const auto seen = [&] { return torn_saves > 0 && cut_rows > 0; };
  while (killed < kills || (!seen() && killed < kills + 200)) {
    INFO("VERLCPP_KILL_SEED=" << seed << ", kill " << killed);
    const double left = static_cast<double>(kSteps - tracked_step(parts.path())) / kSteps;
    Child child(durable_run(parts.path()));
    if (killed % 5 == 4) {
      // A save is too short to be met by chance. One torn before is removed as the run starts, so
      // that this kill always meets a run beyond its start, which has said what it found.
      bool removed = false;
      child.wait_until([&] {
        removed = removed || !saving(parts.path());
        return removed && saving(parts.path());
      });
    } else {
      std::this_thread::sleep_for(one_run * std::max(left, 0.1) * moment(random));
    }
    child.signal(SIGKILL);
    const Outcome outcome = child.wait();
    INFO(outcome.out << outcome.err);
    if (outcome.err.find("left behind by an interrupted save") != std::string::npos) ++torn_saves;
    if (outcome.err.find("cut ") != std::string::npos) ++cut_rows;
    if (outcome.code == -SIGKILL) {
      ++killed;
      continue;
    }
    REQUIRE(outcome.code == 0);  // it was faster than the kill: that one counts for nothing
    check_same_end(parts.path(), whole.path());
    ++ends;
    one_run *= 0.9;  // the first one was slow: most kills should meet a run
    for (const auto& entry : fs::directory_iterator(parts.path())) fs::remove_all(entry.path());
  }
  const Outcome last = expect_success(durable_run(parts.path()));
  INFO("VERLCPP_KILL_SEED=" << seed << "\n" << last.out << last.err);
  check_same_end(parts.path(), whole.path());
  CHECK(seen());
  std::printf("%u kills over %u whole runs; %u torn saves and %u cuts were said\n", killed,
              ends + 1, torn_saves, cut_rows);
}

TEST_CASE("a second run in the same folder is refused, and nothing of a killed one is in the way") {
  const TemporaryFolder folder;
  const std::vector<std::string> more{"trainer.save_freq=1", "trainer.total_epochs=1000",
                                      "trainer.max_actor_ckpt_to_keep=1"};
  Child first(quickstart(folder.path(), 4000, more));
  REQUIRE(first.wait_until([&] { return tracked_step(folder.path()) > 0; }));
  const Outcome second = run_binary(quickstart(folder.path(), 4000, more));
  INFO(second.out << second.err);
  CHECK(second.code == 2);
  CHECK_THAT(second.err, ContainsSubstring("error: trainer.default_local_dir = ") &&
                             ContainsSubstring(folder.path() + "/checkpoints") &&
                             ContainsSubstring(": another run saves its checkpoints there; wait"));
  CHECK(first.running());
  first.signal(SIGKILL);
  CHECK(first.wait().code == -SIGKILL);
  CHECK(fs::exists(folder.path() + "/checkpoints/.lock"));
  const int done = tracked_step(folder.path());
  expect_success(quickstart(folder.path(), done + 1, more));
  CHECK(tracked_step(folder.path()) == done + 1);
  CHECK(strays(folder.path()).empty());
}

TEST_CASE("half a checkpoint, half a tracker and a torn line are removed, and said") {
  const TemporaryFolder whole, parts;
  const std::vector<std::string> more{"trainer.save_freq=2"};
  expect_success(quickstart(whole.path(), 4, more));
  expect_success(quickstart(parts.path(), 2, more));
  parts.write("checkpoints/.global_step_4.tmp/actor/model/huggingface/model.safetensors", "ha");
  parts.write("checkpoints/.global_step_1.old/state.json", "{}");
  parts.write("checkpoints/latest_checkpointed_iteration.txt.tmp", "");
  std::ofstream(parts.path() + "/logs/run.jsonl", std::ios::app) << R"({"step":3,"data":{}})"
                                                                 << "\n"
                                                                 << R"({"step":4,"da)";
  // The learning rate's horizon is that of 4 steps in both.
  const Outcome resumed = expect_success(quickstart(parts.path(), 4, more));
  CHECK_THAT(resumed.err,
             ContainsSubstring("removed .global_step_4.tmp, left behind") &&
                 ContainsSubstring("removed .global_step_1.old, left behind") &&
                 ContainsSubstring("removed latest_checkpointed_iteration.txt.tmp, left behind") &&
                 ContainsSubstring("cut 1 row(s) after step 2 and a torn line"));
  CHECK(strays(parts.path()).empty());
  CHECK(metrics_lines(parts.path()).size() == 4);
}

TEST_CASE("a run from scratch in an old run's folder is never mixed with the old one") {
  const TemporaryFolder folder, whole;
  const std::vector<std::string> more{"trainer.save_freq=2", "trainer.max_actor_ckpt_to_keep=1"};
  expect_success(quickstart(folder.path(), 7, more));
  CHECK(saved_steps(folder.path()) == std::vector<int>{7});

  // From scratch, killed before its first save: auto does not go on from the old run's step 7.
  auto anew = more;
  anew.insert(anew.end(), {"trainer.resume_mode=disable", "trainer.save_freq=4", "data.seed=5",
                           "actor_rollout_ref.actor.optim.total_training_steps=9"});
  Child child(quickstart(folder.path(), 9, anew));
  REQUIRE(child.wait_until([&] { return child.out().find("step:1 - ") != std::string::npos; }));
  child.signal(SIGKILL);
  const Outcome killed = child.wait();
  if (killed.code == -SIGKILL && tracked_step(folder.path()) == 0) {
    CHECK_THAT(killed.err, ContainsSubstring("held a run saved up to step 7"));
    CHECK(saved_steps(folder.path()) == std::vector<int>{7});
  }
  auto onwards = anew;
  onwards[2] = "trainer.resume_mode=auto";
  expect_success(quickstart(folder.path(), 9, onwards));
  expect_success(quickstart(whole.path(), 9, onwards));
  CHECK(metrics_lines(folder.path()) == metrics_lines(whole.path()));
  // Its own 4 and 8 went as 9 came; the old run's 7 is neither counted nor removed.
  CHECK(saved_steps(folder.path()) == std::vector<int>{7, 9});
}

TEST_CASE("a damaged checkpoint is an error that names the file; a missing one falls back") {
  const TemporaryFolder folder, whole;
  const std::vector<std::string> more{"trainer.save_freq=2"};
  expect_success(quickstart(whole.path(), 6, more));
  expect_success(quickstart(folder.path(), 6, more));
  fs::remove_all(folder.path() + "/checkpoints/global_step_6");
  const Outcome back = expect_success(quickstart(folder.path(), 6, more));
  CHECK_THAT(back.err, ContainsSubstring("global_step_6, which ") &&
                           ContainsSubstring("going on from the newest one before it, step 4"));
  CHECK(metrics_lines(folder.path()) == metrics_lines(whole.path()));

  const std::string file =
      folder.path() + "/checkpoints/global_step_6/actor/model/huggingface/model.safetensors";
  std::fstream(file, std::ios::in | std::ios::out).seekp(-1, std::ios::end).put('~');
  const Outcome damaged = run_binary(quickstart(folder.path(), 8, more));
  CHECK(damaged.code == 2);
  CHECK_THAT(damaged.err, ContainsSubstring(file + " was damaged or changed after it was saved") &&
                              ContainsSubstring("trainer.resume_from_path=" + folder.path() +
                                                "/checkpoints/global_step_4;"));
  CHECK(metrics_lines(folder.path()).size() == 6);
}

TEST_CASE("resume_path goes back, and the run continues from there alone") {
  const TemporaryFolder folder, whole;
  const std::vector<std::string> more{"trainer.save_freq=2"};
  expect_success(quickstart(whole.path(), 6, more));
  expect_success(quickstart(folder.path(), 6, more));
  auto back = more;
  back.insert(back.end(),
              {"trainer.resume_mode=resume_path",
               "trainer.resume_from_path=" + folder.path() + "/checkpoints/global_step_2",
               "trainer.save_freq=5"});
  const Outcome resumed = expect_success(quickstart(folder.path(), 6, back));
  CHECK_THAT(resumed.err, ContainsSubstring("resume_mode=auto now goes on from step 2") &&
                              ContainsSubstring("cut 4 row(s) after step 2"));
  CHECK(metrics_lines(folder.path()) == metrics_lines(whole.path()));
  CHECK(saved_steps(folder.path()) == std::vector<int>{2, 4, 5, 6});
  CHECK(tracked_step(folder.path()) == 6);
}

TEST_CASE(
    "weights alone go on with AdamW's moments at zero, which is said; an export is its model") {
  const TemporaryFolder folder;
  std::vector<std::string> more{"trainer.save_freq=2",
                                "actor_rollout_ref.actor.checkpoint.save_contents=[model]"};
  expect_success(quickstart(folder.path(), 2, more));
  more.push_back("actor_rollout_ref.model.path=" + folder.path() +
                 "/checkpoints/global_step_2/actor/model/huggingface");
  const Outcome resumed = expect_success(quickstart(folder.path(), 4, more));
  const std::string said = "global_step_2: only the weights are loaded";
  CHECK_THAT(resumed.err, ContainsSubstring(said) && ContainsSubstring("begin at zero"));
  CHECK(resumed.err.find(said) == resumed.err.rfind(said));
  CHECK(metrics_lines(folder.path()).size() == 4);
}

TEST_CASE("the end names only the files that are there") {
  const TemporaryFolder folder;
  const Outcome first = expect_success(quickstart(folder.path(), 1, {"trainer.save_freq=1"}));
  CHECK_THAT(first.out, ContainsSubstring("metrics:   "));
  fs::remove(folder.path() + "/logs/run.jsonl");
  const Outcome again = expect_success(quickstart(folder.path(), 1, {"trainer.save_freq=1"}));
  CHECK(again.out.find("metrics:   ") == std::string::npos);
}

TEST_CASE("a run that does not save removes nothing of an interrupted save") {
  const TemporaryFolder folder;
  expect_success(quickstart(folder.path(), 2, {"trainer.save_freq=2"}));
  folder.write("checkpoints/.global_step_4.tmp/actor/half", "x");
  expect_success(
      quickstart(folder.path(), 1, {"trainer.save_freq=-1", "trainer.resume_mode=disable"}));
  CHECK(fs::exists(folder.path() + "/checkpoints/.global_step_4.tmp/actor/half"));
}

TEST_CASE("a recording goes on with another batch size after the rows that were recorded") {
  const TemporaryFolder folder;
  const std::string file = folder.path() + "/record.jsonl";
  std::vector<std::string> more{"trainer.save_freq=2",
                                "actor_rollout_ref.rollout.record_path=" + file};
  expect_success(quickstart(folder.path(), 2, more));
  const std::string first = file_text(file);
  CHECK(std::count(first.begin(), first.end(), '\n') == 2 * 4 * 4);
  more.push_back("data.train_batch_size=2");
  expect_success(quickstart(folder.path(), 3, more));
  const std::string all = file_text(file);
  CHECK(all.starts_with(first));
  CHECK(std::count(all.begin(), all.end(), '\n') == 2 * 4 * 4 + 2 * 4);
}
