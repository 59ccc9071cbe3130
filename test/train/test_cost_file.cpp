// Files of --calibrate, and the configuration that names them.

#include <sys/stat.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "config/problems.h"
#include "schedule/balanced_dynamic_cp.h"
#include "setup.h"
#include "support/catch.h"
#include "support/temporary_folder.h"
#include "train/cost_file.h"
#include "train/engine.h"
#include "train/inputs.h"
#include "train/plan_lengths.h"
#include "train/validate.h"

using namespace verlcpp;
using namespace verlcpp::train;
using Catch::Matchers::ContainsSubstring;
using nlohmann::json;
using test::configured;
using test::TemporaryFolder;

namespace {

const std::string kA = "actor_rollout_ref.";
const std::string kKey = kA + "actor.megatron.dynamic_cp_cost_model";
const std::string kScheduler = kA + "actor.megatron.dynamic_cp_scheduler";
const std::string kWrong = "; must be a file that --calibrate has written";

/// Numbers that decimals do not hold.
Calibration calibration() {
  Calibration c;
  c.costs = {.update = {1.0 / 3, 0.1, 1e-6 / 7, 1e-10 / 3, 1e-4, 0},
             .log_prob = {0.2, 0, 1e-7 / 7, 0, 0, 1e-9},
             .mini_batch = 2.0 / 3,
             .measured = true,
             .subject = "a model"};
  c.device = "a card";
  c.fitted = {{.pass = "update", .lengths = {8, 8}, .cp = 2, .seconds = 2, .predicted = 3},
              {.pass = "update", .lengths = {8}, .seconds = 4, .predicted = 3},
              {.pass = "log_prob", .lengths = {8}, .seconds = 1, .predicted = 1}};
  c.checks = {
      {"lengths.json", {{.pass = "log_prob", .lengths = {5}, .seconds = 2, .predicted = 1}}}};
  return c;
}

std::string reason(const std::string& path) {
  try {
    read_cost_file(path, "the key");
  } catch (const ConfigError& e) {
    return e.what();
  }
  return "none";
}

/// What is said to a file whose value at `pointer` became `value`, or was removed.
std::string reason_after(const std::string& pointer, const std::optional<json>& value) {
  const TemporaryFolder folder;
  json file = json::parse(to_json(calibration()));
  const json::json_pointer at(pointer);
  if (value) {
    file[at] = *value;
  } else {
    file[at.parent_pointer()].erase(at.back());
  }
  return reason(folder.write("cost.json", file.dump()));
}

}  // namespace

TEST_CASE("costs read back as they were written") {
  const TemporaryFolder folder;
  const Calibration c = calibration();
  const PassCosts read = read_cost_file(folder.write("cost.json", to_json(c)), "the key");
  CHECK(read.update == c.costs.update);
  CHECK(read.log_prob == c.costs.log_prob);
  CHECK(read.mini_batch == c.costs.mini_batch);
  CHECK(read.measured);
  CHECK(read.subject == "a model");
  CHECK(read.device == "a card");
}

TEST_CASE("a file says how well the model fits, and where it was measured") {
  const json file = json::parse(to_json(calibration()));
  CHECK(file["version"] == 1);
  CHECK(file["device"] == "a card");
  CHECK(file["errors"]["update"] == json({{"count", 2}, {"mean", 0.375}, {"largest", 0.5}}));
  CHECK(file["fitted"][0]["lengths"] == json({8, 8}));
  CHECK(file["fitted"][0]["cp"] == 2);
  CHECK(file["checks"][0]["file"] == "lengths.json");
  CHECK(file["checks"][0]["errors"]["log_prob"]["largest"] == 0.5);
  CHECK(file["checks"][0]["errors"]["update"]["count"] == 0);
  CHECK(file["checks"][0]["micro_batches"][0]["predicted"] == 1.0);
  const std::string text = to_text(calibration());
  CHECK_THAT(text, ContainsSubstring("cost model of a model on a card\n") &&
                       ContainsSubstring("fitted to: update of 2 micro-batches: mean error 37.5 %, "
                                         "largest 50.0 %; log_prob of 1 micro-batches: mean error "
                                         "0.0 %, largest 0.0 %\n") &&
                       ContainsSubstring("check lengths.json: update of 0 micro-batches"));
}

TEST_CASE("a bad fit is warned of, by pass") {
  const std::vector<std::string> warnings = fit_warnings(calibration().fitted);
  REQUIRE(warnings.size() == 1);
  CHECK_THAT(warnings[0], ContainsSubstring("the cost model of update is off by 38 % on the mean "
                                            "(at most 50 %)"));
}

TEST_CASE("a file that cannot be read, or is something else") {
  const TemporaryFolder folder;
  CHECK(reason(folder.path() + "/none.json") == "the key: does not exist" + kWrong);
  CHECK(reason(folder.path()) == "the key: is a folder, not a file" + kWrong);
  const std::string pipe = folder.path() + "/pipe";
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  CHECK(reason(pipe) == "the key: is not a regular file" + kWrong);
  for (const char* text : {"", "[1]", "{\"version\": 1", "nothing", "{\"version\": 1e999}"}) {
    INFO(text);
    CHECK(reason(folder.write("cost.json", text)) ==
          "the key: the file is no JSON object" + kWrong);
  }
}

TEST_CASE("each thing that can be wrong in a file is named") {
  const std::string key = "the key: ";
  const std::string number = " in the file, not a number from 0 to 1e6" + kWrong;
  CHECK(reason_after("/version", 2) == key + "version is 2 in the file, not 1" + kWrong);
  CHECK(reason_after("/version", {}) == key + "the file lacks version" + kWrong);
  CHECK(reason_after("/subject", {}) == key + "the file lacks subject" + kWrong);
  CHECK(reason_after("/subject", 7) == key + "subject is 7 in the file, not a string" + kWrong);
  CHECK(reason_after("/device", 7) == key + "device is 7 in the file, not a string" + kWrong);
  CHECK(reason_after("/seconds", {}) == key + "the file lacks seconds" + kWrong);
  CHECK(reason_after("/seconds/update", 3) ==
        key + "seconds.update is 3 in the file, not an object" + kWrong);
  CHECK(reason_after("/seconds/log_prob/linear", {}) ==
        key + "the file lacks seconds.log_prob.linear" + kWrong);
  CHECK(reason_after("/seconds/mini_batch", {}) ==
        key + "the file lacks seconds.mini_batch" + kWrong);
  CHECK(reason_after("/seconds/update/document", -1) ==
        key + "seconds.update.document is -1" + number);
  CHECK(reason_after("/seconds/update/linear", 1e7) ==
        key + "seconds.update.linear is 10000000.0" + number);
  CHECK(reason_after("/seconds/update/linear", 1e6) == "none");
  CHECK(reason_after("/seconds/mini_batch", "1 s") ==
        key + "seconds.mini_batch is \"1 s\"" + number);
  CHECK(reason_after("/seconds/mini_batch", std::vector<int>(100, 1)) ==
        key + "seconds.mini_batch is [1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1..." + number);
  CHECK(reason_after("/seconds/log_prob/linear", 0) ==
        key + "by the file's seconds.log_prob tokens cost nothing" + kWrong);
  CHECK(reason_after("/seconds/update/linear", 0) == "none");  // the squares of lengths do
}

TEST_CASE("a configuration names key, value and origin of a file that it cannot use") {
  const TemporaryFolder folder;
  const std::string file = folder.path() + "/none.json";
  const auto message = [&](const std::string& key) -> std::string {
    const auto run =
        configured(test::valid_run(), {key + "='" + file + "'", "trainer.total_epochs=0"});
    try {
      validate(run.config, run.tree);
    } catch (const ConfigError& e) {
      return e.what();
    }
    return "none";
  };
  const std::string kOther = "trainer.total_epochs = 0 (override 21): must be a positive integer";
  CHECK(message(kKey) ==
        config::numbered(
            {kKey + " = '" + file + "' (override 20): does not exist" + kWrong, kOther}));
  const std::string of_ref = kA + "ref.megatron.dynamic_cp_cost_model";
  CHECK(message(of_ref) ==
        config::numbered(
            {of_ref + " = '" + file + "' (override 20): does not exist" + kWrong, kOther}));
}

TEST_CASE("every pass plans by its own costs, and --plan by the update's") {
  const TemporaryFolder folder;
  Calibration c = calibration();
  c.costs.update = {.document = 1, .linear = 1e-9, .quadratic = 0};
  c.costs.log_prob = {.linear = 1, .quadratic = 0};
  const std::string file = folder.write("cost.json", to_json(c));
  const auto run =
      configured(test::valid_dynamic_run(),
                 {"trainer.n_gpus_per_node=2", kA + "actor.megatron.context_parallel_size=2",
                  kKey + "='" + file + "'", kScheduler + "=balanced"});
  const std::vector<int64_t> lengths = {115, 64, 12, 12, 12, 12};
  const schedule::DynamicCpOptions options{.pool = 2, .max_seqlen_per_rank = 128};
  const auto shown = [&](const schedule::Plan& plan) { return to_json(plan, lengths, 1); };
  const auto planned = [&](Pass pass) {
    return shown(make_planner(batching_rule(run.config, pass))(lengths));
  };
  const auto by = [&](const schedule::CostModel& model) {
    return shown(schedule::schedule_balanced_dynamic_cp(lengths, options, model, 1));
  };
  CHECK(planned(Pass::kActorUpdate) == by(c.costs.update));
  CHECK(planned(Pass::kOldLogProb) == by(c.costs.log_prob));
  CHECK(planned(Pass::kRefLogProb) == by(c.costs.log_prob));
  CHECK(by(c.costs.update) != by(c.costs.log_prob));
  const BatchingRule rule = plan_rule(run.tree);
  CHECK(rule.dcp->balanced);
  CHECK(shown(make_planner(rule)(lengths)) == by(c.costs.update));
}

TEST_CASE("another device than the measured one is warned of") {
  const TemporaryFolder folder;
  const auto warned = [&](const std::string& measured, const std::string& device) {
    Calibration c = calibration();
    c.device = measured;
    const std::string file = folder.write("cost.json", to_json(c));
    const auto run = configured(test::valid_dynamic_run(), {kKey + "='" + file + "'"});
    const std::vector<std::string> lines = device_warnings(run.config, run.tree, device);
    if (lines.empty()) return std::string("none");
    return lines.size() == 1 ? lines[0].substr(lines[0].find(") ") + 2) : "several";
  };
  CHECK(warned("cpu", "cpu") == "none");
  CHECK(warned("cpu", "") == "none");
  CHECK(warned("a card", "a card") == "none");
  CHECK(warned("a card", kSomeGpu) == "none");
  CHECK(warned("a card", "cpu") == "was measured on a card; this run is on cpu");
  CHECK(warned("cpu", kSomeGpu) == "was measured on cpu; this run is on a GPU");
  CHECK(warned("a card", "another") == "was measured on a card; this run is on another");
}

TEST_CASE("balanced without a file plans by verl's workload, default needs no file") {
  const auto by_workload = configured(test::valid_dynamic_run(), {kScheduler + "=balanced"});
  const BatchingRule rule = batching_rule(by_workload.config, Pass::kActorUpdate);
  CHECK(rule.dcp->balanced);
  CHECK(rule.cost == schedule::CostModel{});
  CHECK_FALSE(batching_rule(configured(test::valid_dynamic_run()).config, Pass::kActorUpdate)
                  .dcp->balanced);
}
