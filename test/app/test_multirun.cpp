// Sweeps: which jobs run, where they write, what is said at the end, and how a sweep ends early.

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "child.h"
#include "small_run.h"
#include "support/catch.h"

using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::StartsWith;
using namespace verlcpp::test;
using nlohmann::json;
namespace fs = std::filesystem;

namespace {

/// The small quickstart with relative outputs, as a sweep in `folder`/sweep.
std::vector<std::string> sweep(const std::string& folder, int steps,
                               const std::vector<std::string>& more) {
  std::vector<std::string> arguments =
      quickstart(folder, steps,
                 {"-m", "trainer.default_local_dir=checkpoints", "trainer.project_name=logs",
                  "hydra.sweep.dir=" + folder + "/sweep"});
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

std::string job_folder(const std::string& folder, int job) {
  return folder + "/sweep/" + std::to_string(job);
}

/// The rows of multirun.jsonl.
std::vector<json> rows(const std::string& folder) {
  std::istringstream in(file_text(folder + "/sweep/multirun.jsonl"));
  std::vector<json> found;
  for (std::string line; std::getline(in, line);) found.push_back(json::parse(line));
  return found;
}

/// The lines of the table without the white space that aligns them.
std::vector<std::string> table(const std::string& out) {
  std::vector<std::string> lines;
  std::istringstream in(out.substr(std::min(out.find("\njob  "), out.size() - 1) + 1));
  for (std::string line; std::getline(in, line) && !line.starts_with("sweep:");) {
    std::istringstream words(line);
    std::string joined;
    for (std::string word; words >> word;) joined += (joined.empty() ? "" : " ") + word;
    lines.push_back(joined);
  }
  return lines;
}

/// The process that holds a job's checkpoint folder; 0 while there is none.
pid_t job_process(const std::string& folder, int job) {
  const std::string text = file_text(job_folder(folder, job) + "/checkpoints/.lock");
  int process = 0;
  return std::sscanf(text.c_str(), "process %d", &process) == 1 ? process : 0;
}

const std::vector<std::string> kEndless{
    "trainer.save_freq=100000", "trainer.total_epochs=100000",
    "actor_rollout_ref.actor.optim.total_training_steps=100000"};

std::vector<std::string> with(std::vector<std::string> all, const std::vector<std::string>& more) {
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

}  // namespace

TEST_CASE("a sweep runs every combination in order, each in its own folder") {
  const TemporaryFolder folder;
  const std::string& place = folder.path();
  const Outcome outcome =
      expect_success(sweep(place, 2,
                           {"actor_rollout_ref.actor.optim.lr=1e-3,3e-3", "trainer.save_freq=2",
                            "actor_rollout_ref.rollout.seed=choice(5,6)"}));
  CHECK_THAT(outcome.err, !ContainsSubstring("error"));
  const std::vector<std::string> lines = table(outcome.out);
  REQUIRE(lines.size() == 5);
  CHECK(lines[0] == "job lr seed ended steps critic/score/mean actor/loss timing_s/step");
  CHECK_THAT(lines[1], StartsWith("0 1e-3 5 ok 2 "));
  CHECK_THAT(lines[2], StartsWith("1 1e-3 6 ok 2 "));
  CHECK_THAT(lines[3], StartsWith("2 3e-3 5 ok 2 "));
  CHECK_THAT(lines[4], StartsWith("3 3e-3 6 ok 2 "));
  const std::vector<json> kept = rows(place);
  REQUIRE(kept.size() == 4);
  for (int job = 0; job < 4; ++job) {
    INFO("job " << job);
    const std::string own = job_folder(place, job);
    const json& row = kept[static_cast<size_t>(job)];
    const std::string lr = job < 2 ? "1e-3" : "3e-3", seed = job % 2 == 0 ? "5" : "6";
    CHECK(row["job"] == job);
    CHECK(row["swept"] ==
          json{{"actor_rollout_ref.actor.optim.lr", lr}, {"actor_rollout_ref.rollout.seed", seed}});
    CHECK(row["folder"] == own);
    CHECK(row["exit_code"] == 0);
    CHECK(row["error"].is_null());
    CHECK(row["step"] == 2);
    const std::vector<std::string> metrics = metrics_lines(own);
    REQUIRE(metrics.size() == 2);
    CHECK(row["metrics"]["critic/score/mean"] ==
          json::parse(metrics[1])["data"]["critic/score/mean"]);
    CHECK(saved_steps(own) == std::vector<int>{2});
    CHECK_THAT(file_text(own + "/.hydra/overrides.yaml"),
               ContainsSubstring("\n- 'actor_rollout_ref.actor.optim.lr=" + lr + "'\n") &&
                   !ContainsSubstring("hydra.sweep"));
    CHECK_THAT(file_text(own + "/verlcpp-train.log"), ContainsSubstring("step:2 - "));
    // What it said on either stream.
    CHECK_THAT(file_text(own + "/verlcpp-train.log"),
               ContainsSubstring("\ndone in ") && ContainsSubstring("warning: "));
  }
  CHECK(metrics_lines(job_folder(place, 0)) != metrics_lines(job_folder(place, 1)));

  // A job is what a single run with its overrides is, and its configuration is the whole of it.
  const TemporaryFolder alone;
  expect_success(
      quickstart(alone.path(), 2,
                 {"actor_rollout_ref.actor.optim.lr=3e-3", "actor_rollout_ref.rollout.seed=5"}));
  CHECK(metrics_lines(job_folder(place, 2)) == metrics_lines(alone.path()));
  const TemporaryFolder again;
  expect_success({"--config-path=" + job_folder(place, 2) + "/.hydra", "--config-name=config",
                  "hydra.run.dir=" + again.path()});
  CHECK(metrics_lines(again.path()) == metrics_lines(alone.path()));
  CHECK(file_text(again.path() + "/.hydra/config.yaml") ==
        file_text(job_folder(place, 2) + "/.hydra/config.yaml"));
}

TEST_CASE("relative inputs are those of where the sweep starts, relative outputs the job's") {
  const TemporaryFolder folder;
  const fs::path before = fs::current_path(), place = fs::canonical(folder.path());
  fs::copy(VERLCPP_QUICKSTART, place / "inputs", fs::copy_options::recursive);
  fs::current_path(place);
  const Outcome outcome = run_binary(quickstart(
      "unused", 1,
      {"-m", "data.train_files=inputs/train.jsonl", "actor_rollout_ref.model.path=inputs/model",
       "trainer.default_local_dir=saved", "trainer.project_name=logs", "trainer.save_freq=1",
       "trainer.rollout_data_dir=dumps", "actor_rollout_ref.rollout.record_path=recorded.jsonl",
       "actor_rollout_ref.rollout.n=2,4", "hydra.sweep.dir=${trainer.experiment_name}s",
       "hydra.sweep.subdir='n${actor_rollout_ref.rollout.n}_${hydra.job.num}'"}));
  fs::current_path(before);
  INFO(outcome.err);
  REQUIRE(outcome.code == 0);
  for (const std::string name : {"n2_0", "n4_1"}) {
    INFO(name);
    for (const char* file : {"saved/global_step_1/config.yaml", "logs/run.jsonl", "dumps/1.jsonl",
                             "recorded.jsonl", ".hydra/config.yaml"}) {
      INFO(file);
      CHECK(fs::exists(place / "runs" / name / file));
    }
  }
  std::vector<std::string> there;
  for (const auto& entry : fs::directory_iterator(place)) {
    there.push_back(entry.path().filename().string());
  }
  std::sort(there.begin(), there.end());
  CHECK(there == std::vector<std::string>{"inputs", "runs"});
}

TEST_CASE("a job that fails does not stop the others unless asked") {
  const TemporaryFolder folder;
  const std::string& place = folder.path();
  folder.write("bad.jsonl", "{\"prompt\": 3}\n");
  const std::string files = std::string("data.train_files=") + VERLCPP_QUICKSTART "/train.jsonl," +
                            place + "/bad.jsonl," + VERLCPP_QUICKSTART "/train.jsonl";
  SECTION("all run") {
    const Outcome outcome = run_binary(sweep(place, 1, {files}));
    CHECK(outcome.code == 2);
    const std::vector<json> kept = rows(place);
    REQUIRE(kept.size() == 3);
    CHECK(kept[0]["exit_code"] == 0);
    CHECK(kept[1]["exit_code"] == 2);
    CHECK_THAT(kept[1]["error"].get<std::string>(), ContainsSubstring("bad.jsonl"));
    CHECK(kept[1]["metrics"].empty());
    CHECK(kept[2]["exit_code"] == 0);
    const std::vector<std::string> lines = table(outcome.out);
    REQUIRE(lines.size() == 5);
    CHECK_THAT(lines[2], ContainsSubstring("bad.jsonl exit 2 - - - -"));
    CHECK_THAT(lines[3], ContainsSubstring("train.jsonl ok 1 "));
    CHECK_THAT(lines[4], StartsWith("job 1: ") && ContainsSubstring("bad.jsonl"));
    CHECK_THAT(outcome.err, ContainsSubstring("\nerror: data.train_files: 1 bad row:\n"));
    CHECK_THAT(file_text(job_folder(place, 1) + "/verlcpp-train.log"),
               ContainsSubstring("\nerror: data.train_files: 1 bad row:\n"));
  }
  SECTION("--stop-on-failure") {
    const Outcome outcome = run_binary(sweep(place, 1, {files, "--stop-on-failure"}));
    CHECK(outcome.code == 2);
    const std::vector<json> kept = rows(place);
    REQUIRE(kept.size() == 3);
    CHECK(kept[1]["exit_code"] == 2);
    CHECK(kept[2]["exit_code"].is_null());
    CHECK_FALSE(fs::exists(job_folder(place, 2)));
    CHECK_THAT(outcome.out, ContainsSubstring("train.jsonl  not started") &&
                                ContainsSubstring("ended at its first failure (--stop-on-failure), "
                                                  "1 of 3 jobs not started"));
  }
}

TEST_CASE(
    "a signal stops the job as it stops a run, and then the sweep; the same command goes on") {
  for (const int signal : {SIGTERM, SIGINT}) {
    const TemporaryFolder folder;
    const std::string& place = folder.path();
    const std::vector<std::string> seeds = with(kEndless, {"actor_rollout_ref.rollout.seed=5,6"});
    Child child(sweep(place, 100000, seeds));
    REQUIRE(child.wait_until([&] { return child.out().find("step:2 - ") != std::string::npos; }));
    child.signal(signal);
    const Outcome stopped = child.wait();
    INFO(stopped.out << stopped.err);
    REQUIRE(stopped.code == 75);
    const std::string name = signal == SIGTERM ? "SIGTERM" : "SIGINT";
    CHECK_THAT(stopped.out, ContainsSubstring("stopped by " + name + "; the same command") &&
                                ContainsSubstring("the sweep was stopped by " + name +
                                                  ", 1 of 2 jobs not started"));
    const int done = static_cast<int>(metrics_lines(job_folder(place, 0)).size());
    CHECK(tracked_step(job_folder(place, 0)) == done);
    std::vector<json> kept = rows(place);
    CHECK(kept[0]["exit_code"] == 75);
    CHECK(kept[0]["step"] == done);
    CHECK(kept[1]["exit_code"].is_null());
    CHECK_FALSE(fs::exists(job_folder(place, 1)));

    expect_success(sweep(place, done + 1, seeds));
    kept = rows(place);
    CHECK(kept[0]["exit_code"] == 0);
    CHECK(kept[1]["exit_code"] == 0);
    for (const int job : {0, 1}) {
      CHECK(static_cast<int>(metrics_lines(job_folder(place, job)).size()) == done + 1);
    }
    const TemporaryFolder whole;
    expect_success(
        quickstart(whole.path(), done + 1, with(kEndless, {"actor_rollout_ref.rollout.seed=5"})));
    CHECK(metrics_lines(job_folder(place, 0)) == metrics_lines(whole.path()));
  }
}

TEST_CASE("a job that is killed harms no other; a sweep that is killed takes its job along") {
  const TemporaryFolder folder;
  const std::string& place = folder.path();
  Child child(sweep(place, 100000, with(kEndless, {"actor_rollout_ref.rollout.seed=5,6,7"})));
  REQUIRE(child.wait_until([&] { return job_process(place, 0) != 0; }));
  ::kill(job_process(place, 0), SIGKILL);
  REQUIRE(child.wait_until([&] { return job_process(place, 1) != 0; }));
  const std::vector<json> kept = rows(place);
  REQUIRE(kept.size() == 3);
  CHECK(kept[0]["exit_code"] == 128 + SIGKILL);
  CHECK(kept[0]["error"] == "killed by SIGKILL");
  CHECK(kept[1]["exit_code"].is_null());
  const pid_t second = job_process(place, 1);
  child.signal(SIGKILL);
  CHECK(child.wait().code == -SIGKILL);
  bool gone = false;
  for (int i = 0; i < 3000 && !gone; ++i) {
    gone = ::kill(second, 0) != 0;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  CHECK(gone);
}

TEST_CASE("all jobs are checked before the first starts") {
  const TemporaryFolder folder;
  const std::string& place = folder.path();
  const Outcome outcome =
      run_binary(sweep(place, 1, {"actor_rollout_ref.rollout.n=4,0", "data.train_batch_size=4,3"}));
  CHECK(outcome.code == 2);
  CHECK(outcome.out.empty());
  // A key that was there before keeps its place, and so data.train_batch_size varies slowest.
  CHECK_THAT(
      outcome.err,
      StartsWith("error: the sweep has 2 problems, and no job was started:\n"
                 "  job 1 (data.train_batch_size=4 actor_rollout_ref.rollout.n=0) and job 3: "
                 "actor_rollout_ref.rollout.n = 0 (override 5): must be") &&
          ContainsSubstring("\n  job 2 (data.train_batch_size=3 actor_rollout_ref.rollout.n=4): "
                            "actor_rollout_ref.actor.ppo_mini_batch_size = 2 (override 4): must"));
  // What is wrong with all of them is said once, whatever else is wrong with one.
  const Outcome common =
      run_binary(sweep(place, 1, {"data.seed=1,abc", "~trainer.save_freq", "trainer.nnodes=0"}));
  CHECK_THAT(common.err, ContainsSubstring("the sweep has 3 problems") &&
                             ContainsSubstring("\n  every job: trainer.save_freq is missing: ") &&
                             ContainsSubstring("\n  every job: trainer.nnodes = 0 ") &&
                             ContainsSubstring("\n  job 1 (data.seed=abc): data.seed='abc' "));
  const Outcome folders = run_binary(
      sweep(place, 1, {"data.seed=1,2", "hydra.sweep.subdir=${nope}", "trainer.nnodes=0"}));
  CHECK_THAT(folders.err, ContainsSubstring("there is no key nope") &&
                              ContainsSubstring("\n  every job: trainer.nnodes = 0 "));
  const Outcome choices = run_binary(sweep(place, 1, {"data=x,legacy_data", "algorithm=z"}));
  CHECK_THAT(choices.err, ContainsSubstring("\n  every job: algorithm=z (override ") &&
                              ContainsSubstring("\n  job 0 (data=x): data=x (override "));
  // The other jobs have their folder all the same.
  const Outcome one = run_binary(sweep(place, 1, {"data=x,legacy_data"}));
  CHECK_THAT(one.err, ContainsSubstring("the sweep has 1 problem") &&
                          ContainsSubstring("\n  job 0 (data=x): data=x (override "));
  const Outcome deleted = run_binary(
      sweep(place, 1,
            {"data.seed=1,2", "~trainer.test_freq", "hydra.sweep.subdir=${trainer.test_freq}"}));
  CHECK_THAT(deleted.err, ContainsSubstring("the sweep has 1 problem") &&
                              ContainsSubstring("\n  every job: trainer.test_freq is missing: "));
  CHECK_FALSE(fs::exists(place + "/sweep"));
}

TEST_CASE("-m with --dry-run and --cfg job shows every job and writes nothing") {
  const TemporaryFolder folder;
  const std::string& place = folder.path();
  const std::string lr = "actor_rollout_ref.actor.optim.lr=1e-3,3e-3";
  const Outcome dry = expect_success(sweep(place, 1, {lr, "--dry-run"}));
  CHECK_THAT(dry.out,
             ContainsSubstring("== job 0 (actor_rollout_ref.actor.optim.lr=1e-3)\n") &&
                 ContainsSubstring("\n== job 1 (actor_rollout_ref.actor.optim.lr=3e-3)\n"));
  CHECK_THAT(dry.out, ContainsSubstring("note: trainer.project_name=") &&
                          ContainsSubstring(" comes later\n== job 0 "));
  // The jobs know their number, and when the sweep began.
  const std::string name = "trainer.experiment_name=e_${hydra:job.num}_${now:%Y}";
  const Outcome named = expect_success(sweep(place, 1, {lr, name, "--cfg", "job", "--resolve"}));
  CHECK_THAT(named.out, ContainsSubstring("\n  experiment_name: e_0_2") &&
                            ContainsSubstring("\n  experiment_name: e_1_2"));
  const Outcome printed = expect_success(sweep(place, 1, {lr, "--cfg", "job"}));
  const std::string second = "---\n# job 1 (actor_rollout_ref.actor.optim.lr=3e-3)\n";
  CHECK_THAT(printed.out, StartsWith("---\n# job 0 (") && ContainsSubstring(second) &&
                              ContainsSubstring("lr: 0.001\n"));
  CHECK_THAT(printed.out.substr(printed.out.find(second)), ContainsSubstring("lr: 0.003\n"));
  CHECK_FALSE(fs::exists(place + "/sweep"));
  // A row that is wrong is found by a dry run of its job.
  folder.write("bad.jsonl", "{\"prompt\": 3}\n");
  const Outcome bad =
      run_binary(sweep(place, 1, {"data.train_files=" + place + "/bad.jsonl", lr, "--dry-run"}));
  CHECK(bad.code == 2);
  CHECK_THAT(bad.out, ContainsSubstring("== job 1 ("));
}

namespace {

/// A configuration in `folder` that goes on from the quickstart.
std::vector<std::string> on_quickstart_data(const std::string& folder, const std::string& name) {
  return {"--config-dir=" + folder, "--config-name=" + name,
          "data.train_files=" VERLCPP_QUICKSTART "/train.jsonl",
          "actor_rollout_ref.model.path=" VERLCPP_QUICKSTART "/model"};
}

}  // namespace

TEST_CASE("folders that a run of this kind does not have are named") {
  const TemporaryFolder folder;
  const std::string& place = folder.path();
  const Outcome many = expect_success(sweep(place, 1, {"hydra.run.dir=x", "--dry-run"}));
  CHECK_THAT(many.out, ContainsSubstring(") has no effect with -m; a job's folder is "
                                         "hydra.sweep.dir/hydra.sweep.subdir\n== job 0"));
  CHECK_THAT(many.out, !ContainsSubstring("without -m"));
  const Outcome one = expect_success(
      quickstart(place, 1, {"hydra.sweep.dir=x", "hydra.sweep={subdir: y}", "--dry-run"}));
  for (const char* key : {"hydra.sweep.dir (override ", "hydra.sweep.subdir (override "}) {
    CHECK_THAT(one.out, ContainsSubstring(std::string("note: ") + key));
  }
  CHECK_THAT(one.out, ContainsSubstring(") has no effect without -m; a run's folder is "
                                        "hydra.run.dir\n"));
  // A file may set those of both kinds.
  folder.write("both.yaml",
               "defaults: [quickstart, _self_]\nhydra: {run: {dir: x}, sweep: {dir: y}}\n");
  const std::vector<std::string> both = on_quickstart_data(place, "both");
  CHECK_THAT(expect_success(with(both, {"--dry-run"})).out, !ContainsSubstring("no effect"));
  CHECK_THAT(expect_success(with(both, {"--dry-run", "-m"})).out, !ContainsSubstring("no effect"));
}

TEST_CASE("a sweep in a file is not run, and says where it has to stand") {
  const TemporaryFolder folder;
  folder.write("main.yaml",
               "defaults: [quickstart, _self_]\n"
               "hydra: {sweeper: {params: {actor_rollout_ref.rollout.n: '2,4'}}}\n");
  const std::vector<std::string> words = on_quickstart_data(folder.path(), "main");
  const std::string text =
      "hydra.sweeper.params = {actor_rollout_ref.rollout.n: '2,4'} (" + folder.path() +
      "/main.yaml:2): a sweep is written on the command line, behind -m, as in "
      "actor_rollout_ref.rollout.n=2,4";
  CHECK_THAT(expect_success(with(words, {"--dry-run"})).out,
             ContainsSubstring("note: " + text + "; here it has no effect\n"));
  const Outcome refused = run_binary(with(words, {"--dry-run", "-m"}));
  CHECK(refused.code == 2);
  CHECK_THAT(refused.err, ContainsSubstring("  job 0: " + text + "\n"));
  CHECK(expect_success(with(words, {"--cfg", "job"})).err.empty());
}

TEST_CASE("a job's folder is not above the sweep's") {
  const TemporaryFolder folder;
  const std::string& place = folder.path();
  const auto outcome = [&](const std::string& subdir) {
    return run_binary(sweep(place, 1, {"hydra.sweep.subdir=" + subdir, "--cfg", "job"}));
  };
  for (const std::string& inside :
       {std::string("a/../b"), std::string("."), std::string("../sweep/c"), place + "/else"}) {
    INFO(inside);
    CHECK(outcome(inside).code == 0);
  }
  CHECK_THAT(outcome("..").err, ContainsSubstring("hydra.sweep.subdir = .. (override ") &&
                                    ContainsSubstring("): leads to " + place) &&
                                    ContainsSubstring("which holds hydra.sweep.dir, " + place +
                                                      "/sweep; valid: a folder below it"));
  CHECK_THAT(outcome("../else").err, ContainsSubstring("outside of hydra.sweep.dir, "));
  CHECK_THAT(outcome(place).err, ContainsSubstring("which holds hydra.sweep.dir, "));
}

TEST_CASE("one sweep at a time has a folder; without a name each has a new one") {
  const TemporaryFolder folder;
  const std::string& place = folder.path();
  fs::create_directories(place + "/sweep");
  const int held = ::open((place + "/sweep").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  REQUIRE(::flock(held, LOCK_EX) == 0);
  const Outcome refused = run_binary(sweep(place, 1, {"data.seed=1,2"}));
  ::close(held);
  CHECK(refused.code == 2);
  CHECK(refused.err == "error: hydra.sweep.dir = " + place +
                           "/sweep: another sweep runs there; wait for its end, or set a folder of "
                           "its own\n");

  const fs::path before = fs::current_path();
  fs::current_path(place);
  std::vector<std::string> arguments =
      quickstart("unused", 1,
                 {"-m", "trainer.default_local_dir=c", "trainer.project_name=logs", "data.seed=1"});
  for (int i = 0; i < 3; ++i) CHECK(run_binary(arguments).code == 0);
  fs::current_path(before);
  int sweeps = 0;
  for (const auto& day : fs::directory_iterator(place + "/multirun")) {
    for (const auto& each : fs::directory_iterator(day.path())) {
      ++sweeps;
      CHECK(fs::exists(each.path() / "multirun.jsonl"));
      CHECK(metrics_lines((each.path() / "0").string()).size() == 1);
    }
  }
  CHECK(sweeps == 3);
}
