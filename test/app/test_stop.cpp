// SIGTERM and SIGINT in every phase: what is said, what is saved, how long it takes.

#include <csignal>
#include <cstdio>
#include <filesystem>
#include <random>
#include <thread>

#include "child.h"
#include "small_run.h"
#include "support/catch.h"

using Catch::Matchers::ContainsSubstring;
using namespace verlcpp::test;
namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

namespace {

constexpr int kStopped = 75;
constexpr double kMostSeconds = 30;  // far more than any piece of these runs takes

/// Signals it and waits; the time it took is checked.
Outcome stop(Child& child, int signal) {
  const auto start = Clock::now();
  child.signal(signal);
  Outcome outcome = child.wait();
  CHECK(std::chrono::duration<double>(Clock::now() - start).count() < kMostSeconds);
  return outcome;
}

bool step_is_done(const Child& child, int step) {
  return child.out().find("step:" + std::to_string(step) + " - ") != std::string::npos;
}

/// What a stop leaves behind is whole, and the same command goes on to what an uninterrupted run
/// ends with.
void check_goes_on(const std::string& folder, const std::vector<std::string>& more) {
  const int done = static_cast<int>(metrics_lines(folder).size());
  CHECK(strays(folder).empty());
  CHECK(tracked_step(folder) == done);
  const TemporaryFolder whole;
  auto same = more;  // a schedule that does not depend on the number of steps
  expect_success(quickstart(folder, done + 1, same));
  expect_success(quickstart(whole.path(), done + 1, same));
  CHECK(metrics_lines(folder) == metrics_lines(whole.path()));
}

const std::vector<std::string> kEndless{
    "trainer.save_freq=-1", "trainer.total_epochs=100000",
    "actor_rollout_ref.actor.optim.total_training_steps=100000"};

/// Stops runs somewhere in a step until one drops its `work`.
void stop_until_dropped(const std::string& work, const std::vector<std::string>& more, int signal) {
  const std::string name = signal == SIGTERM ? "SIGTERM" : "SIGINT";
  std::mt19937 random(std::random_device{}());
  std::uniform_int_distribution<int> milliseconds(0, 200);
  for (int tries = 0; tries < 40; ++tries) {
    const TemporaryFolder folder;
    Child child(quickstart(folder.path(), 100000, more));
    REQUIRE(child.wait_until([&] { return step_is_done(child, 1); }));
    std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds(random)));
    const Outcome stopped = stop(child, signal);
    INFO(stopped.out << stopped.err);
    REQUIRE(stopped.code == kStopped);
    const size_t done = metrics_lines(folder.path()).size();
    CHECK_THAT(stopped.out,
               ContainsSubstring(name + ": saving step " + std::to_string(done)) &&
                   ContainsSubstring("stopped by " + name + "; the same command continues"));
    const std::string said =
        name + ": dropping the " + work + " of step " + std::to_string(done + 1);
    if (stopped.out.find(said) == std::string::npos) continue;
    check_goes_on(folder.path(), more);
    return;
  }
  FAIL("none of 40 stops met the " << work);
}

std::vector<std::string> endless(std::vector<std::string> more) {
  more.insert(more.begin(), kEndless.begin(), kEndless.end());
  return more;
}

}  // namespace

TEST_CASE("a stop in the rollout drops it and saves the steps before") {
  // One sequence at a time: nearly all of a step is the rollout.
  const auto more =
      endless({"actor_rollout_ref.rollout.max_num_seqs=1", "actor_rollout_ref.rollout.n=64"});
  for (const int signal : {SIGTERM, SIGINT}) stop_until_dropped("rollout", more, signal);
}

// The ranks that cut a model have to stop at the same token.
TEST_CASE("a stop in the rollout of a model cut by tensor parallelism") {
  const std::string megatron = "actor_rollout_ref.actor.megatron.";
  stop_until_dropped(
      "rollout",
      endless({"actor_rollout_ref.rollout.max_num_seqs=1", "actor_rollout_ref.rollout.n=16",
               megatron + "tensor_model_parallel_size=2", megatron + "context_parallel_size=1"}),
      SIGTERM);
}

TEST_CASE("a stop in a log-prob phase drops it and saves the steps before") {
  // A rollout of one token, an update once over, and a reference.
  stop_until_dropped("log-probs",
                     endless({"data.max_response_length=1", "actor_rollout_ref.rollout.n=16",
                              "actor_rollout_ref.actor.use_kl_loss=True"}),
                     SIGTERM);
}

TEST_CASE("a stop while a program scores drops the rewards at once") {
  const TemporaryFolder folder;
  const std::string file = folder.write("score.py", R"(
import time
def compute_score(data_source, solution_str, ground_truth, extra_info=None):
    print("scoring", flush=True)
    time.sleep(1000)
)");
  Child child(quickstart(folder.path(), 2, {"reward.custom_reward_function.path=" + file}));
  REQUIRE(child.wait_until(
      [&] { return child.out().find("reward program: scoring") != std::string::npos; }));
  const Outcome stopped = stop(child, SIGTERM);
  INFO(stopped.out << stopped.err);
  CHECK(stopped.code == kStopped);
  CHECK_THAT(stopped.out, ContainsSubstring("SIGTERM: dropping the rewards of step 1\n"));
}

TEST_CASE("a stop in the update finishes it, counts the step and saves") {
  const TemporaryFolder folder;
  const auto more = endless({"actor_rollout_ref.actor.ppo_epochs=40"});
  Child child(quickstart(folder.path(), 100000, more));
  REQUIRE(child.wait_until([&] { return step_is_done(child, 1); }));
  std::this_thread::sleep_for(std::chrono::milliseconds(150));  // far beyond the rollout
  const Outcome stopped = stop(child, SIGTERM);
  INFO(stopped.out << stopped.err);
  CHECK(stopped.code == kStopped);
  CHECK_THAT(stopped.out, ContainsSubstring("SIGTERM: finishing the update of step ") &&
                              ContainsSubstring(", then saving; the last update took ") &&
                              ContainsSubstring("SIGTERM: saving step "));
  check_goes_on(folder.path(), more);
}

TEST_CASE("a stop in a validation drops it; the step before it is saved and has its row") {
  // Minutes of it, one sequence at a time.
  const std::string rollout = "actor_rollout_ref.rollout.";
  std::vector<std::string> more{"trainer.save_freq=-1",
                                "data.val_files=" VERLCPP_QUICKSTART "/train.jsonl",
                                rollout + "max_num_seqs=1",
                                rollout + "val_kwargs.n=4000",
                                rollout + "val_kwargs.do_sample=True",
                                rollout + "val_kwargs.temperature=1"};
  const auto stopped_in_it = [&](const TemporaryFolder& folder, const std::string& when,
                                 int steps = 5) {
    auto all = more;
    all.push_back(when);
    Child child(quickstart(folder.path(), steps, all));
    REQUIRE(child.wait_until([&] { return child.out().find("dataset len") != std::string::npos; }));
    std::this_thread::sleep_for(std::chrono::seconds(2));  // far beyond a step
    Outcome outcome = stop(child, SIGTERM);
    INFO(outcome.out << outcome.err);
    CHECK(outcome.code == kStopped);
    CHECK(outcome.out.find("val-") == std::string::npos);
    return outcome.out;
  };
  const TemporaryFolder after;
  CHECK_THAT(stopped_in_it(after, "trainer.test_freq=1"),
             ContainsSubstring("SIGTERM: dropping the validation after step 1\n") &&
                 ContainsSubstring("SIGTERM: saving step 1"));
  CHECK(metrics_lines(after.path()).size() == 1);
  CHECK(tracked_step(after.path()) == 1);
  CHECK(saved_steps(after.path()) == std::vector<int>{1});

  // After the last step too it is a run that was stopped, which goes on with its validation.
  const TemporaryFolder last;
  CHECK_THAT(stopped_in_it(last, "trainer.test_freq=1", 1),
             ContainsSubstring("stopped by SIGTERM"));
  CHECK(tracked_step(last.path()) == 1);
  CHECK_THAT(stopped_in_it(last, "trainer.test_freq=1", 1),
             ContainsSubstring("SIGTERM: dropping the validation after step 1\n"));

  // Before training it changes nothing, not even what a run without resuming begins with.
  const TemporaryFolder old;
  expect_success(quickstart(old.path(), 2, {"trainer.save_freq=1"}));
  const auto rows = metrics_lines(old.path());
  more.push_back("trainer.resume_mode=disable");
  stopped_in_it(old, "trainer.val_before_train=True");
  CHECK(metrics_lines(old.path()) == rows);
  CHECK(tracked_step(old.path()) == 2);
  more.pop_back();

  const TemporaryFolder before;
  CHECK_THAT(stopped_in_it(before, "trainer.val_before_train=True"),
             ContainsSubstring("SIGTERM: dropping the validation after step 0\n") &&
                 ContainsSubstring("nothing to save"));
  CHECK(metrics_lines(before.path()).empty());
  CHECK(saved_steps(before.path()).empty());
}

TEST_CASE("a stop that cannot save says so: the machine's failure, with the path") {
  const TemporaryFolder folder;
  const std::string file = folder.write("checkpoints", "somebody's");
  Child child(quickstart(folder.path(), 100000, endless({})));
  REQUIRE(child.wait_until([&] { return step_is_done(child, 1); }));
  const Outcome stopped = stop(child, SIGTERM);
  INFO(stopped.out << stopped.err);
  CHECK(stopped.code == 3);
  CHECK_THAT(stopped.err, ContainsSubstring("warning: trainer.default_local_dir=" + file +
                                            " cannot be written (Not a directory): a run that is "
                                            "stopped could not be saved"));
  CHECK_THAT(stopped.err, ContainsSubstring("error: SIGTERM: step ") &&
                              ContainsSubstring(" cannot be saved: trainer.default_local_dir=" +
                                                file + " cannot be written: Not a directory"));
  CHECK(file_text(file) == "somebody's");
}

TEST_CASE("a stop in the save finishes it and saves nothing twice") {
  const TemporaryFolder folder;
  auto more = endless({});
  more[0] = "trainer.save_freq=1";
  Child child(quickstart(folder.path(), 100000, more));
  const std::string aside = folder.path() + "/checkpoints/.global_step_1.tmp";
  REQUIRE(child.wait_until([&] { return fs::exists(aside); }));
  const Outcome stopped = stop(child, SIGTERM);
  INFO(stopped.out << stopped.err);
  CHECK(stopped.code == kStopped);
  CHECK_THAT(stopped.out, !ContainsSubstring("SIGTERM: saving step"));
  CHECK(metrics_lines(folder.path()).size() == saved_steps(folder.path()).size());
  check_goes_on(folder.path(), more);
}

TEST_CASE("stopped at random moments from the start on, nothing is lost and nothing is doubled") {
  const TemporaryFolder folder, whole;
  // With a reference and a KL coefficient that moves every step.
  const std::vector<std::string> more{"trainer.save_freq=4", "algorithm.use_kl_in_reward=True",
                                      "algorithm.kl_ctrl.type=adaptive",
                                      "actor_rollout_ref.actor.optim.total_training_steps=1000"};
  const auto begin = Clock::now();
  expect_success(quickstart(whole.path(), 8, more));
  const std::chrono::duration<double> one_run = Clock::now() - begin;
  const unsigned seed = std::random_device{}();
  std::printf("seed %u\n", seed);
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> moment(0, 0.7);
  int before_training = 0, later = 0;
  const auto seen = [&] { return before_training > 0 && later > 0; };
  for (int i = 0; i < 16 || (!seen() && i < 100); ++i) {
    const int done = static_cast<int>(metrics_lines(folder.path()).size());
    Child child(quickstart(folder.path(), 8, more));
    std::this_thread::sleep_for(one_run * moment(random));
    const Outcome stopped = stop(child, i % 2 == 0 ? SIGTERM : SIGINT);
    INFO("seed " << seed << ", stop " << i << "\n" << stopped.out << stopped.err);
    const int now = static_cast<int>(metrics_lines(folder.path()).size());
    if (stopped.code == 0) {
      CHECK(now == 8);
    } else if (stopped.out.empty() && stopped.code < 0) {
      CHECK(now == done);  // the process was not yet one that listens
    } else {
      REQUIRE(stopped.code == kStopped);
      ++(now == done ? before_training : later);
      CHECK(tracked_step(folder.path()) == now);
    }
    CHECK(strays(folder.path()).empty());
    if (now == 8) {
      CHECK(metrics_lines(folder.path()) == metrics_lines(whole.path()));
      for (const auto& entry : fs::directory_iterator(folder.path())) fs::remove_all(entry.path());
    }
  }
  expect_success(quickstart(folder.path(), 8, more));
  CHECK(metrics_lines(folder.path()) == metrics_lines(whole.path()));
  CHECK(seen());
  std::printf("%d stops before a step was done, %d after\n", before_training, later);
}

TEST_CASE("a stop before training begins touches no file") {
  int stops = 0;
  for (int i = 0; i < 40 && stops < 3; ++i) {
    const TemporaryFolder folder;
    expect_success(quickstart(folder.path(), 2, {"trainer.save_freq=2"}));
    const std::string before = file_text(folder.path() + "/logs/run.jsonl");
    Child child(quickstart(
        folder.path(), 1000,
        {"trainer.save_freq=2", "trainer.total_epochs=1000", "trainer.resume_mode=disable"}));
    // The first line is out, and so the checks are done, but no input is read yet.
    child.wait_until([&] { return !child.out().empty(); });
    const Outcome stopped = stop(child, SIGTERM);
    INFO(stopped.out << stopped.err);
    REQUIRE(stopped.code == kStopped);
    // A machine that was slow to signal has begun training: not what is looked for.
    if (stopped.out.find("start to first training step") != std::string::npos) continue;
    ++stops;
    CHECK_THAT(stopped.out, ContainsSubstring("stopped by SIGTERM before training began"));
    CHECK(file_text(folder.path() + "/logs/run.jsonl") == before);
    CHECK(tracked_step(folder.path()) == 2);
    CHECK(saved_steps(folder.path()) == std::vector<int>{2});
    CHECK(strays(folder.path()).empty());
  }
  CHECK(stops > 0);
  std::printf("%d stops before training\n", stops);
}

TEST_CASE("signals that come together are one stop; one that comes later kills") {
  const auto more = endless({"actor_rollout_ref.actor.ppo_epochs=100000"});
  for (int tries = 0; tries < 10; ++tries) {
    const TemporaryFolder folder;
    Child child(quickstart(folder.path(), 100000, more));
    REQUIRE(child.wait_until(
        [&] { return child.out().find("start to first training step") != std::string::npos; }));
    std::this_thread::sleep_for(std::chrono::milliseconds(700 * (tries + 1)));
    for (const int signal : {SIGTERM, SIGTERM, SIGINT}) child.signal(signal);
    std::this_thread::sleep_for(std::chrono::milliseconds(1300));
    if (!child.running()) {  // that was in the rollout
      CHECK(child.wait().code == kStopped);
      continue;
    }
    CHECK_THAT(child.out(), ContainsSubstring(": finishing the update of step 1"));
    child.signal(SIGINT);
    CHECK(child.wait().code == -SIGINT);
    return;
  }
  FAIL("none of 10 stops met the update");
}
