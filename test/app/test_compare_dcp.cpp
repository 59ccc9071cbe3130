// --compare-dcp through the executable.

#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "child.h"
#include "support/catch.h"

using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::StartsWith;
using nlohmann::json;
using verlcpp::test::Outcome;
using verlcpp::test::run_binary;
using verlcpp::test::TemporaryFolder;

namespace {

const std::string kA = "actor_rollout_ref.";
const std::string kMegatron = kA + "actor.megatron.";

/// The quickstart, made small, as scripts/compare_dcp.sh runs it: CP 4 on four ranks.
std::vector<std::string> comparison(const std::vector<std::string>& more) {
  std::vector<std::string> arguments{"--compare-dcp",
                                     "--config-name",
                                     "quickstart",
                                     "data.train_files=" VERLCPP_QUICKSTART "/train.jsonl",
                                     kA + "model.path=" VERLCPP_QUICKSTART "/model",
                                     kMegatron + "context_parallel_size=4",
                                     kMegatron + "dtype=float64",
                                     kA + "ref.megatron.dtype=float64",
                                     "data.train_batch_size=8",
                                     kA + "actor.ppo_mini_batch_size=4"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

Outcome compare(const std::vector<std::string>& more) { return run_binary(comparison(more)); }

std::string read_text(const std::string& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

json read_json(const std::string& path) {
  std::ifstream in(path);
  REQUIRE(in);
  return json::parse(in);
}

/// Two rows of one group, the second of `longest` tokens.
std::string rows(int longest, double first_reward = 1, double second_reward = 0) {
  std::string out;
  for (const int index : {0, 1}) {
    const int length = index == 0 ? 10 : longest;
    json row{{"uid", "a"}, {"prompt_ids", {1, 2}}};
    row["reward"] = index == 0 ? first_reward : second_reward;
    for (int i = 2; i < length; ++i) row["response_ids"].push_back(i % 7 + 1);
    out += row.dump() + "\n";
  }
  return out;
}

/// The overrides that play back one group of two rows a step.
std::vector<std::string> replay(const std::string& file) {
  return {kA + "rollout.name=replay",
          kA + "rollout.replay_path=" + file,
          kA + "rollout.n=2",
          "data.train_batch_size=1",
          kA + "actor.ppo_mini_batch_size=1",
          "data.max_response_length=156"};
}

}  // namespace

TEST_CASE("a comparison on the CPU: equal tokens, losses equal to 1e-9 in float64") {
  const TemporaryFolder folder;
  const std::string file = folder.path() + "/compare.json";
  const Outcome outcome = compare({"--compare-steps=2", "--compare-json", file});
  INFO(outcome.out << outcome.err);
  REQUIRE(outcome.code == 0);
  CHECK_THAT(outcome.out,
             ContainsSubstring("static-balanced") && ContainsSubstring("step time, median") &&
                 ContainsSubstring("equal tokens; losses and gradient norms agree within 1e-09"));
  const json result = read_json(file);
  CHECK(result["version"] == 1);
  CHECK(result["settings"]["static_pack_tokens"] == 256);
  CHECK(result["settings"]["device"] == "cpu");
  CHECK(result["settings"]["samples_from"] == "rollout of the initial weights");
  CHECK(result["verdict"]["equal_tokens"] == true);
  CHECK(result["verdict"]["grad_norm_within_tolerance"] == true);
  CHECK(result["verdict"]["all_gradients_zero"] == false);
  REQUIRE(result["arms"].size() == 3);
  for (size_t i = 0; i < 3; ++i) {
    const json& arm = result["arms"][i];
    INFO(arm["name"]);
    CHECK(arm["real_tokens"] == result["arms"][0]["real_tokens"]);
    // Old log-probs and one epoch of updates: every token twice.
    CHECK(arm["real_tokens"] == 2 * result["settings"]["batch_tokens"].get<int64_t>());
    CHECK(arm["step_seconds"].size() == 2);
    CHECK(arm["loss_drift"] == 0.0);
    CHECK(arm["peak_bytes"].get<int64_t>() > 0);
    CHECK(result["differences"][i]["loss_abs"].get<double>() < 1e-9);
    CHECK(result["differences"][i]["grad_norm_rel"].get<double>() < 1e-9);
  }
  CHECK(result["arms"][2]["groups_by_cp"].size() > 1);
  CHECK(result["arms"][2]["padded_tokens"] < result["arms"][0]["padded_tokens"]);
}

TEST_CASE("a comparison as JSON alone, from a configuration with dynamic CP off") {
  const Outcome outcome = compare({"--format=json", "--compare-steps=1", "--compare-warmup=0",
                                   kMegatron + "dynamic_context_parallel=False"});
  INFO(outcome.err);
  REQUIRE(outcome.code == 0);
  const json result = json::parse(outcome.out);
  CHECK(result["settings"]["limit_tokens_per_rank"] == 64);
  CHECK(result["arms"][2]["groups_by_cp"].contains("1"));
}

// A learning rate that leaves no numbers after the first mini-batch.
TEST_CASE("losses that are not within the tolerance end a comparison with 1, after its result") {
  const TemporaryFolder folder;
  const std::string file = folder.path() + "/compare.json";
  const Outcome outcome = compare({"--compare-steps=1", "--compare-warmup=0", "--compare-json",
                                   file, kA + "actor.optim.lr=1e300"});
  INFO(outcome.out << outcome.err);
  CHECK(outcome.code == 1);
  CHECK_THAT(outcome.out,
             ContainsSubstring("losses of static-balanced, static-in-order, dcp DIFFER BY "
                               "MORE THAN 1e-09"));
  CHECK_THAT(outcome.err, ContainsSubstring("error: --compare-dcp: losses and gradient norms of "
                                            "the arms differ") &&
                              ContainsSubstring("please report it"));
  CHECK(read_json(file)["verdict"]["loss_within_tolerance"] == false);
}

// Advantages of opposite sign: the losses cancel (exactly, being powers of two over 16 tokens), and
// the squares of the gradients overflow.
TEST_CASE("gradient norms that are not within the tolerance end a comparison with 1 all alone") {
  const TemporaryFolder folder;
  const double large = std::ldexp(1.0, 600);
  auto arguments = replay(folder.write("rows.jsonl", rows(10, large, -large)));
  arguments.push_back("algorithm.norm_adv_by_std_in_grpo=False");
  arguments.insert(arguments.end(), {"--compare-steps=1", "--compare-warmup=0"});
  const Outcome outcome = compare(arguments);
  INFO(outcome.out << outcome.err);
  CHECK(outcome.code == 1);
  CHECK_THAT(outcome.out, ContainsSubstring("losses agree within 1e-09, gradient norms of "
                                            "static-balanced, static-in-order, dcp DIFFER BY"));
  CHECK_THAT(outcome.err, ContainsSubstring("error: --compare-dcp: gradient norms of the arms"));
}

TEST_CASE("a comparison needs one step of a recording, whatever the run's number of steps") {
  const TemporaryFolder folder;
  auto arguments = replay(folder.write("rows.jsonl", rows(20)));
  arguments.insert(arguments.end(), {"trainer.total_training_steps=100", "--compare-steps=1",
                                     "--compare-warmup=0", "--format=json"});
  const Outcome outcome = compare(arguments);
  INFO(outcome.err);
  REQUIRE(outcome.code == 0);
  CHECK(json::parse(outcome.out)["settings"]["samples"] == 2);

  arguments.push_back(kA + "rollout.n=4");
  const Outcome short_of_one = compare(arguments);
  CHECK(short_of_one.code == 2);
  CHECK_THAT(short_of_one.err, ContainsSubstring("1 step needs 4 rows"));
}

TEST_CASE("arms that cannot process the same tokens: exit code 2 and the setting") {
  const TemporaryFolder folder;
  auto arguments = replay(folder.write("rows.jsonl", rows(150)));
  arguments.insert(arguments.end(),
                   {"trainer.total_training_steps=1", kMegatron + "context_parallel_size=2"});
  const Outcome outcome = compare(arguments);
  CHECK(outcome.code == 2);
  const std::string limit = kMegatron + "max_seqlen_per_dp_cp_rank";
  CHECK(outcome.err ==
        "error: --compare-dcp: the arms would not process the same tokens: sample 1 (uid a) has "
        "150. What differs is the longest sequence: static-balanced and static-in-order up to 128 "
        "tokens (64 per rank x context_parallel_size 2); dcp up to 256 tokens (64 per rank x DPxCP "
        "4); " +
            limit +
            " = 64 (conf/quickstart.yaml:29). Raise it to at least 75, raise "
            "context_parallel_size, or cap the response length\n");
}

TEST_CASE("a JSON file that cannot be written is refused before the work") {
  const Outcome outcome = compare({"--compare-json", "/nowhere/compare.json"});
  CHECK(outcome.code == 2);
  CHECK_THAT(outcome.err, StartsWith("error: --compare-json /nowhere/compare.json cannot be "
                                     "written: No such file or directory"));
}

TEST_CASE("a JSON file that is no regular file is refused, and left alone") {
  const Outcome outcome = compare({"--compare-json", "/dev/full"});
  CHECK(outcome.code == 2);
  CHECK_THAT(outcome.err, StartsWith("error: --compare-json /dev/full cannot be written: it is no "
                                     "regular file; valid: "));
  CHECK(std::filesystem::is_character_file("/dev/full"));
}

TEST_CASE("a JSON file that takes no more bytes: the table is printed and an older result stays") {
  const TemporaryFolder folder;
  const std::string file = folder.write("compare.json", "an older result\n");
  constexpr uint64_t kEnoughForTheTable = 4096;
  verlcpp::test::Child limited(
      comparison({"--compare-steps=1", "--compare-warmup=0", "--compare-json", file}),
      kEnoughForTheTable);
  const Outcome outcome = limited.wait();
  INFO(outcome.out << outcome.err);
  CHECK(outcome.code == 3);
  CHECK_THAT(outcome.out, ContainsSubstring("losses and gradient norms agree within 1e-09"));
  CHECK_THAT(outcome.err, ContainsSubstring("error: ") &&
                              ContainsSubstring(file + ".tmp: cannot write ") &&
                              ContainsSubstring(" bytes: File too large"));
  CHECK(read_text(file) == "an older result\n");
  CHECK_FALSE(std::filesystem::exists(file + ".tmp"));
}

TEST_CASE("a JSON file replaces an older result behind a link, whole, and nothing is left aside") {
  const TemporaryFolder folder;
  const std::string file = folder.write("compare.json", std::string(100000, 'x'));
  const std::string link = folder.path() + "/link.json";
  std::filesystem::create_symlink("compare.json", link);
  const Outcome outcome =
      compare({"--compare-steps=1", "--compare-warmup=0", "--compare-json", link});
  INFO(outcome.err);
  REQUIRE(outcome.code == 0);
  CHECK(read_json(file)["version"] == 1);
  CHECK(std::filesystem::is_symlink(link));
  CHECK_FALSE(std::filesystem::exists(file + ".tmp"));
  CHECK_FALSE(std::filesystem::exists(link + ".tmp"));
}
