// --calibrate through the executable: the file it writes is what the balanced scheduler plans by
// and the comparison predicts from.

#include <filesystem>
#include <nlohmann/json.hpp>

#include "child.h"
#include "small_run.h"
#include "support/catch.h"

using Catch::Matchers::ContainsSubstring;
using nlohmann::json;
using namespace verlcpp::test;

namespace {

const std::string kA = "actor_rollout_ref.";
const std::string kMegatron = kA + "actor.megatron.";

/// The small quickstart with ranks that hold enough tokens to be timed.
std::vector<std::string> run(const std::string& folder, const std::vector<std::string>& more) {
  std::vector<std::string> all{"data.max_response_length=156", "data.max_token_len_per_gpu=256",
                               kMegatron + "max_seqlen_per_dp_cp_rank=256"};
  all.insert(all.end(), more.begin(), more.end());
  return quickstart(folder, 2, all);
}

std::vector<std::string> balanced(const std::string& file) {
  return {kMegatron + "dynamic_cp_scheduler=balanced", kMegatron + "dynamic_cp_cost_model=" + file};
}

std::vector<std::string> joined(std::vector<std::string> a, const std::vector<std::string>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

/// A machine with much other work may have to measure again: it is said, and nothing is written.
Outcome calibrated(const std::vector<std::string>& arguments) {
  Outcome outcome = run_binary(arguments);
  for (int again = 0; again < 9 && outcome.code == 2; ++again) {
    CHECK_THAT(outcome.err, ContainsSubstring("do not grow with the tokens"));
    outcome = run_binary(arguments);
  }
  INFO(outcome.out << outcome.err);
  REQUIRE(outcome.code == 0);
  return outcome;
}

}  // namespace

TEST_CASE("a calibration's file is planned by, predicted from and warned of") {
  const TemporaryFolder folder;
  const std::string file = folder.path() + "/cost.json";
  const std::string lengths = folder.write("lengths.json", "[200, 12, 31, 256, 90, 4, 4, 64]");
  const Outcome made = calibrated(run(folder.path(), {"--calibrate", file, "--calibrate-check",
                                                      lengths, "--calibrate-check", lengths}));
  CHECK_THAT(made.out, ContainsSubstring("cost model of Qwen2ForCausalLM, ") &&
                           ContainsSubstring(" on cpu\n") && ContainsSubstring("\nmini_batch ") &&
                           ContainsSubstring("\ncheck " + lengths + ": update of "));
  const json cost = json::parse(file_text(file));
  CHECK(cost["version"] == 1);
  CHECK(cost["device"] == "cpu");
  CHECK(cost["fitted"].size() > 20);
  CHECK(cost["checks"].size() == 2);
  // Nothing else is written or trained.
  CHECK_FALSE(std::filesystem::exists(file + ".tmp"));
  CHECK_FALSE(std::filesystem::exists(folder.path() + "/checkpoints"));
  CHECK_FALSE(std::filesystem::exists(folder.path() + "/logs"));

  SECTION("training plans by it") {
    const Outcome trained = expect_success(run(folder.path(), balanced(file)));
    CHECK_THAT(trained.out, ContainsSubstring("dynamic CP balanced by times measured for " +
                                              cost["subject"].get<std::string>() + ", limit 256"));
    CHECK_THAT(trained.err, !ContainsSubstring("was measured for"));
    CHECK(metrics_lines(folder.path()).size() == 2);
  }
  SECTION("the comparison predicts from it") {
    const Outcome compared = expect_success(
        run(folder.path(),
            joined({"--compare-dcp", "--compare-steps=1", "--compare-warmup=0", "--format=json",
                    kMegatron + "dtype=float32", kMegatron + "context_parallel_size=4"},
                   balanced(file))));
    const json result = json::parse(compared.out);
    REQUIRE(result["arms"].size() == 4);
    CHECK(result["arms"][3]["name"] == "dcp-balanced");
    for (const json& arm : result["arms"]) CHECK(arm["predicted_seconds"].get<double>() > 0);
    CHECK(result["predicted"]["measured_for"] == cost["subject"]);
    CHECK(result["predicted"]["steps"].size() == 3);
    CHECK(result["predicted"]["steps"][2]["arms"][3]["seconds"].get<double>() > 0);
  }
  SECTION("another dtype is warned of, once for both roles") {
    const Outcome other = expect_success(run(
        folder.path(), joined({"--dry-run", kMegatron + "dtype=float64",
                               kA + "ref.megatron.dtype=float64", kA + "actor.use_kl_loss=True"},
                              balanced(file))));
    const std::string warning = kMegatron + "dynamic_cp_cost_model = '" + file + "' (override ";
    CHECK_THAT(other.err, ContainsSubstring(warning) &&
                              ContainsSubstring(") was measured for Qwen2ForCausalLM, ") &&
                              ContainsSubstring(", float32, TP 1, recompute none; this run is ") &&
                              ContainsSubstring(", float64, TP 1, recompute none\n"));
    CHECK_THAT(other.err, !ContainsSubstring(kA + "ref.megatron.dynamic_cp_cost_model"));
  }
}

TEST_CASE("a cost model that cannot be written is printed") {
  const TemporaryFolder folder;
  const std::string file = folder.write("cost.json", "an older one\n");
  constexpr uint64_t kEnoughForTheTable = 4096;
  const auto arguments = run(folder.path(), {"--calibrate", file});
  const auto limited = [&] { return verlcpp::test::Child(arguments, kEnoughForTheTable).wait(); };
  Outcome outcome = limited();
  for (int again = 0; again < 9 && outcome.code == 2; ++again) outcome = limited();
  INFO(outcome.err);
  CHECK(outcome.code == 3);
  CHECK_THAT(outcome.out, ContainsSubstring("\nmini_batch "));
  CHECK_THAT(outcome.err, ContainsSubstring(file + ".tmp: cannot write "));
  CHECK(file_text(file) == "an older one\n");
}

TEST_CASE("an older cost file stays when a calibration is refused") {
  const TemporaryFolder folder;
  const std::string file = folder.write("cost.json", "an older one\n");
  const std::string lengths = folder.write("lengths.json", "[999]");
  const Outcome outcome =
      run_binary(run(folder.path(), {"--calibrate", file, "--calibrate-check", lengths}));
  CHECK(outcome.code == 2);
  CHECK_THAT(outcome.err, ContainsSubstring("--calibrate-check " + lengths + ": element 0 is 999"));
  CHECK(file_text(file) == "an older one\n");
  CHECK_FALSE(std::filesystem::exists(file + ".tmp"));
}
