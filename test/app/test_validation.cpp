// Validation runs and dumps of generations, through the executable.

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "small_run.h"
#include "support/catch.h"

using Catch::Matchers::ContainsSubstring;
using nlohmann::json;
using namespace verlcpp::test;
namespace fs = std::filesystem;

namespace {

const std::string kVal = "actor_rollout_ref.rollout.val_kwargs.";
const std::string kMegatron = "actor_rollout_ref.actor.megatron.";
constexpr int kPrompts = 5;

/// The first rows of the quickstart as a file for validation.
std::string val_file(const TemporaryFolder& folder) {
  std::istringstream rows(file_text(VERLCPP_QUICKSTART "/train.jsonl"));
  std::string text, line;
  for (int i = 0; i < kPrompts && std::getline(rows, line); ++i) text += line + "\n";
  return folder.write("val.jsonl", text);
}

/// Sampled, four responses a prompt; before training and every second step.
std::vector<std::string> validating(const TemporaryFolder& folder,
                                    std::vector<std::string> more = {}) {
  const std::vector<std::string> base{"data.val_files=" + val_file(folder),
                                      "trainer.val_before_train=True",
                                      "trainer.test_freq=2",
                                      kVal + "n=4",
                                      kVal + "do_sample=True",
                                      kVal + "temperature=1"};
  more.insert(more.begin(), base.begin(), base.end());
  return more;
}

bool is_validation(const std::string& name) { return name.starts_with("val-"); }

/// Rows of the metrics file: those of validations alone, or all others.
std::vector<json> rows(const std::string& folder, bool validation) {
  std::vector<json> all;
  for (const std::string& line : metrics_lines(folder)) {
    const json row = json::parse(line);
    json kept = json::object();
    for (const auto& [name, value] : row["data"].items()) {
      if (is_validation(name) == validation) kept[name] = value;
    }
    if (!kept.empty()) all.push_back({{"step", row["step"]}, {"data", kept}});
  }
  return all;
}

std::vector<int> steps(const std::vector<json>& rows) {
  std::vector<int> all;
  for (const json& row : rows) all.push_back(row["step"].get<int>());
  return all;
}

std::vector<json> json_lines(const std::string& path) {
  std::vector<json> lines;
  std::istringstream text(file_text(path));
  for (std::string line; std::getline(text, line);) lines.push_back(json::parse(line));
  return lines;
}

double mean_score(const std::vector<json>& lines) {
  double sum = 0;
  for (const json& line : lines) sum += line["score"].get<double>();
  return sum / static_cast<double>(lines.size());
}

bool sorted_by_uid(const std::vector<json>& lines) {
  return std::is_sorted(lines.begin(), lines.end(), [](const json& a, const json& b) {
    return a["uid"].get<std::string>() < b["uid"].get<std::string>();
  });
}

void check_refused(const std::vector<std::string>& more, const std::vector<std::string>& says) {
  const TemporaryFolder folder;
  const Outcome outcome = run_binary(quickstart(folder.path(), 1, more));
  INFO(outcome.err);
  CHECK(outcome.code == 2);
  for (const std::string& text : says) CHECK_THAT(outcome.err, ContainsSubstring(text));
  CHECK(metrics_lines(folder.path()).empty());
}

}  // namespace

TEST_CASE("validations come before training, every test_freq steps and after the last step") {
  const TemporaryFolder folder;
  const Outcome outcome = expect_success(quickstart(folder.path(), 3, validating(folder)));
  CHECK_THAT(outcome.out, ContainsSubstring("Initial validation metrics: {'val-") &&
                              ContainsSubstring("step:0 - val-") &&
                              ContainsSubstring("Final validation metrics: {'val-") &&
                              ContainsSubstring("resume ") && ContainsSubstring("validation "));
  const auto found = rows(folder.path(), true);
  CHECK(steps(found) == std::vector<int>{0, 2, 3});
  CHECK(steps(rows(folder.path(), false)) == std::vector<int>{1, 2, 3});
  const std::string source = "/verlcpp/cycle/";
  for (const json& row : found) {
    for (const std::string& name :
         {"val-core" + source + "acc/mean@4", "val-core" + source + "acc/best@4/mean",
          "val-core" + source + "acc/best@4/std", "val-aux" + source + "acc/std@4",
          "val-aux" + source + "acc/best@2/mean", "val-aux" + source + "acc/worst@4/std",
          "val-aux" + source + "reward/mean@4"}) {
      INFO(name);
      CHECK(row["data"].contains(name));
    }
    CHECK(row["data"]["val-core" + source + "acc/mean@4"] ==
          row["data"]["val-aux" + source + "reward/mean@4"]);
    CHECK(row["data"]["val-aux/num_turns/mean"] == 2);
  }
  const auto all = json_lines(folder.path() + "/logs/run.jsonl");
  CHECK(!all[1]["data"].contains("timing_s/testing"));
  CHECK(all[2]["data"]["timing_s/testing"].get<double>() > 0);
}

TEST_CASE("validation finds the same in every layout, in batches of any size") {
  // The weights stay: samples of trained ones may part where layouts round differently.
  const std::string still = "actor_rollout_ref.actor.optim.lr=0";
  const TemporaryFolder pool, one, tensor, small;
  expect_success(quickstart(pool.path(), 2, validating(pool, {still})));
  const auto want = rows(pool.path(), true);
  REQUIRE(steps(want) == std::vector<int>{0, 2});
  CHECK(want[0]["data"] != want[1]["data"]);  // other random numbers

  const std::vector<std::string> static_cp{kMegatron + "dynamic_context_parallel=False",
                                           kMegatron + "context_parallel_size=1",
                                           "data.max_token_len_per_gpu=4096", still};
  auto alone = validating(one, static_cp);
  alone.push_back("trainer.n_gpus_per_node=1");
  expect_success(quickstart(one.path(), 2, alone));
  CHECK(rows(one.path(), true) == want);

  auto two = validating(tensor, static_cp);
  two.push_back("trainer.n_gpus_per_node=2");
  two.push_back(kMegatron + "tensor_model_parallel_size=2");
  expect_success(quickstart(tensor.path(), 2, two));
  CHECK(rows(tensor.path(), true) == want);

  expect_success(quickstart(small.path(), 2, validating(small, {"data.val_batch_size=2", still})));
  CHECK(rows(small.path(), true) == want);
}

TEST_CASE("validation changes no number of the training") {
  const TemporaryFolder with, without;
  expect_success(quickstart(with.path(), 3, validating(with, {"trainer.test_freq=1"})));
  expect_success(quickstart(without.path(), 3));
  const auto trained = rows(with.path(), false);
  CHECK(trained.size() == 3);
  CHECK(trained == rows(without.path(), false));
}

TEST_CASE("greedy validation gives all responses to a prompt alike") {
  const TemporaryFolder folder;
  const std::string dumps = folder.path() + "/dumps";
  expect_success(quickstart(folder.path(), 1,
                            {"data.val_files=" + val_file(folder), "trainer.val_only=True",
                             kVal + "n=3", "trainer.validation_data_dir=" + dumps}));
  const auto lines = json_lines(dumps + "/0.jsonl");
  REQUIRE(lines.size() == 3 * kPrompts);
  for (size_t i = 0; i < lines.size(); ++i) CHECK(lines[i] == lines[i / 3 * 3]);
}

TEST_CASE("val_only validates the checkpoint and leaves all else alone") {
  const TemporaryFolder folder;
  const std::vector<std::string> more = validating(folder, {"trainer.save_freq=1"});
  expect_success(quickstart(folder.path(), 2, more));
  const std::string log = folder.path() + "/logs/run.jsonl";
  const std::string before = file_text(log);
  auto only = more;
  only.push_back("trainer.val_only=True");
  const Outcome again = expect_success(quickstart(folder.path(), 2, only));
  CHECK_THAT(again.out, ContainsSubstring("(step 2)") && ContainsSubstring("step:2 - val-") &&
                            !ContainsSubstring("first training step"));
  CHECK(file_text(log) == before);  // it has that step's row
  only.push_back("trainer.experiment_name=other");
  only.push_back("trainer.resume_mode=resume_path");
  only.push_back("trainer.resume_from_path=" + folder.path() + "/checkpoints/global_step_1");
  expect_success(quickstart(folder.path(), 2, only));
  const auto other = json_lines(folder.path() + "/logs/other.jsonl");
  REQUIRE(other.size() == 1);
  CHECK(other[0]["step"] == 1);
  CHECK(saved_steps(folder.path()) == std::vector<int>{1, 2});
  CHECK(tracked_step(folder.path()) == 2);
  CHECK(strays(folder.path()).empty());
}

TEST_CASE("a validation repeats after resuming, and its row is not doubled") {
  const TemporaryFolder whole, parts;
  const std::string total = "actor_rollout_ref.actor.optim.total_training_steps=4";
  const auto more = [&](const TemporaryFolder& folder) {
    return validating(folder, {"trainer.save_freq=2", total});
  };
  expect_success(quickstart(whole.path(), 4, more(whole)));
  expect_success(quickstart(parts.path(), 2, more(parts)));
  const Outcome resumed = expect_success(quickstart(parts.path(), 4, more(parts)));
  CHECK_THAT(resumed.out, ContainsSubstring("step:2 - val-"));
  CHECK(metrics_lines(parts.path()) == metrics_lines(whole.path()));
}

TEST_CASE("a validation that fails costs no step, and is made up for by the next run") {
  const TemporaryFolder folder, whole;
  const std::string text = file_text(val_file(folder));
  std::istringstream lines(text);
  std::string other;
  for (std::string line; std::getline(lines, line);) {
    json row = json::parse(line);
    row["data_source"] = "tested";
    other += row.dump() + "\n";
  }
  const auto run = [&](const TemporaryFolder& in, const std::string& raises) {
    const std::string scorer =
        in.write("score.py",
                 "def compute_score(data_source, solution_str, ground_truth, extra_info=None):\n"
                 "    if data_source == 'tested' and " +
                     raises +
                     ": raise ValueError('no validation')\n"
                     "    return float(len(solution_str) % 2)\n");
    return run_binary(
        quickstart(in.path(), 2,
                   {"data.val_files=" + in.write("tested.jsonl", other), "trainer.test_freq=2",
                    "trainer.save_freq=2", "reward.custom_reward_function.path=" + scorer,
                    "trainer.validation_data_dir=" + in.path() + "/val"}));
  };
  const Outcome failed = run(folder, "True");
  CHECK(failed.code == 2);
  CHECK_THAT(failed.err, ContainsSubstring("no validation"));
  CHECK_THAT(failed.out, ContainsSubstring("step:2 - "));
  CHECK(saved_steps(folder.path()) == std::vector<int>{2});
  CHECK(tracked_step(folder.path()) == 2);
  CHECK(strays(folder.path()).empty());
  CHECK(metrics_lines(folder.path()).size() == 2);
  CHECK(rows(folder.path(), true).empty());

  CHECK(run(folder, "False").code == 0);
  CHECK(run(whole, "False").code == 0);
  CHECK(metrics_lines(folder.path()) == metrics_lines(whole.path()));
  CHECK(steps(rows(folder.path(), true)) == std::vector<int>{2});
  CHECK(file_text(folder.path() + "/val/2.jsonl") == file_text(whole.path() + "/val/2.jsonl"));
  const std::string before = file_text(folder.path() + "/logs/run.jsonl");
  CHECK(run(folder, "True").code == 0);  // nothing is left to do
  CHECK(file_text(folder.path() + "/logs/run.jsonl") == before);
}

TEST_CASE("dumps hold what was generated, and are replaced when a step is repeated") {
  const TemporaryFolder folder;
  const std::string trained = folder.path() + "/out/trained", tested = folder.path() + "/out/val";
  const auto more = validating(
      folder, {"trainer.rollout_data_dir=" + trained, "trainer.validation_data_dir=" + tested});
  const Outcome outcome = expect_success(quickstart(folder.path(), 2, more));
  CHECK_THAT(outcome.out, ContainsSubstring("Dumped generations to " + trained + "/1.jsonl\n") &&
                              ContainsSubstring("Dumped generations to " + tested + "/2.jsonl\n"));
  const auto validations = rows(folder.path(), true), steps_done = rows(folder.path(), false);
  const auto answers = json_lines(tested + "/0.jsonl"), samples = json_lines(trained + "/2.jsonl");
  REQUIRE(answers.size() == 4 * kPrompts);
  REQUIRE(samples.size() == 16);
  CHECK(mean_score(answers) ==
        Approx(validations[0]["data"]["val-core/verlcpp/cycle/acc/mean@4"].get<double>()));
  CHECK(mean_score(samples) == Approx(steps_done[1]["data"]["critic/score/mean"].get<double>()));
  CHECK(sorted_by_uid(answers));
  CHECK(sorted_by_uid(samples));
  const auto prompts = json_lines(folder.path() + "/val.jsonl");
  for (size_t i = 0; i < answers.size(); ++i) {
    const json& line = answers[i];
    CHECK(line.size() == 7);
    CHECK(line["input"] == prompts[i / 4]["prompt"][0]["content"]);
    CHECK(line["gts"] == prompts[i / 4]["reward_model"]["ground_truth"]);
    CHECK(line["acc"] == line["score"]);
    CHECK(line["step"] == 0);
    CHECK(line["uid"] == answers[i / 4 * 4]["uid"]);
    CHECK(line["output"].get<std::string>().find("<eos>") == std::string::npos);
  }
  CHECK(samples[0]["step"] == 2);
  CHECK(fs::exists(trained + "/1.jsonl"));
  CHECK(!fs::exists(tested + "/1.jsonl"));

  const std::string first = file_text(trained + "/1.jsonl");
  folder.write("out/trained/1.jsonl", "stale\n");
  fs::remove_all(folder.path() + "/checkpoints");
  expect_success(quickstart(folder.path(), 1, more));
  CHECK(file_text(trained + "/1.jsonl") == first);
  for (const auto& entry : fs::recursive_directory_iterator(folder.path() + "/out")) {
    CHECK(entry.path().extension() != ".tmp");
  }
}

TEST_CASE("validations that cannot be are refused before anything is loaded") {
  const TemporaryFolder folder;
  const std::string file = val_file(folder), none = "data.val_files=null";
  check_refused({none, "trainer.test_freq=5"}, {"trainer.test_freq = 5", "data.val_files"});
  check_refused({none, "trainer.val_only=True"}, {"trainer.val_only = True", "data.val_files"});
  check_refused({"trainer.test_freq=5", "data.val_files=" + file + ".no"},
                {"data.val_files = ", "no such file"});
  {
    const std::string home = std::getenv("HOME") == nullptr ? "" : std::getenv("HOME");
    setenv("HOME", folder.path().c_str(), 1);  // where the shipped tree's files are not
    check_refused({"trainer.test_freq=5"},
                  {"data.val_files = ", "no such file; set it", "trainer.test_freq = 5"});
    setenv("HOME", home.c_str(), 1);
  }
  check_refused({kVal + "do_sample=True"}, {kVal + "temperature = 0", "do_sample=True"});
  check_refused({kVal + "n=0"}, {kVal + "n = 0"});
  check_refused({kVal + "top_p=0"}, {kVal + "top_p = 0"});
  check_refused({"data.val_batch_size=0"}, {"data.val_batch_size = 0"});
  const std::string rollouts = "trainer.rollout_data_dir=";
  check_refused({rollouts + file + "/dumps"}, {"trainer.rollout_data_dir = ", "cannot be written"});
  const std::string out = folder.path() + "/out";
  check_refused({rollouts + out, "trainer.validation_data_dir=" + out + "/../out"},
                {"trainer.validation_data_dir = ", "trainer.rollout_data_dir = "});
  check_refused({rollouts + out, "trainer.validation_data_dir=" + out + "/"},
                {"trainer.validation_data_dir = ", "trainer.rollout_data_dir = "});
  const std::string row = folder.write("7.jsonl", file_text(file));
  check_refused({rollouts + folder.path(), "data.val_files=" + row},
                {"trainer.rollout_data_dir = ", "data.val_files = "});
}

TEST_CASE("verl's default of a validation before training is skipped without files, with a word") {
  const TemporaryFolder folder;
  const Outcome outcome = expect_success(
      quickstart(folder.path(), 1, {"data.val_files=null", "trainer.val_before_train=True"}));
  CHECK_THAT(outcome.err, ContainsSubstring("trainer.val_before_train=True: no validation"));
  CHECK(rows(folder.path(), true).empty());
}
