#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "data/replay.h"
#include "support/catch.h"

using namespace verlcpp;
using namespace verlcpp::data;

namespace {

/// One file of its own for a test, removed at the end.
struct ScratchFile {
  std::string path = (std::filesystem::temp_directory_path() /
                      ("verlcpp_replay_" + std::to_string(::getpid()) + ".jsonl"))
                         .string();
  explicit ScratchFile(const std::string& text = "") {
    std::ofstream(path, std::ios::binary) << text;
  }
  ~ScratchFile() { std::filesystem::remove(path); }
  std::string text() const {
    std::ifstream in(path, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(in), {});
  }
};

ReplayOptions options_for(const ScratchFile& file, int64_t train_batch_size, int64_t n) {
  return {.path = file.path,
          .train_batch_size = train_batch_size,
          .n = n,
          .vocab = 100,
          .max_prompt_length = 8,
          .max_response_length = 4};
}

std::string row(const std::string& uid) {
  return R"({"uid":")" + uid + R"(","prompt_ids":[1],"response_ids":[2,3],"reward":1})" + "\n";
}

std::string message_of(const ReplayOptions& options) {
  try {
    ReplayReader reader(options);
  } catch (const DataError& error) {
    return error.what();
  }
  return "no error";
}

constexpr const char* kKey = "actor_rollout_ref.rollout.replay_path: ";

}  // namespace

TEST_CASE("recorded trajectories read back as they were, step by step") {
  const ScratchFile file;
  std::vector<Trajectory> first(2), second(2);
  first[0] = {.uid = "e0-r1",
              .data_source = "d",
              .prompt_ids = {1, 2},
              .response_ids = {3, 4, 5},
              .response_mask = {1, 0, 1},
              .reward = 0.1 + 0.2,
              .reward_extras = {},
              .rollout_log_probs = {-1.0 / 3, -1e-300, -5},
              .temperature = 0.7};
  first[1] = first[0];
  first[1].rollout_log_probs.clear();
  second[0] = second[1] = first[1];
  second[0].uid = second[1].uid = "e0-r2";
  ReplayWriter writer(file.path, 0);
  writer.write_step(first);
  writer.write_step(second);

  const ReplayReader reader(options_for(file, 1, 2));
  REQUIRE(reader.steps() == 2);
  const auto read = reader.step(0);
  REQUIRE(read.size() == 2);
  CHECK(read[0].uid == "e0-r1");
  CHECK(read[0].data_source == "d");
  CHECK(read[0].prompt_ids == first[0].prompt_ids);
  CHECK(read[0].response_ids == first[0].response_ids);
  CHECK(read[0].response_mask == first[0].response_mask);
  CHECK(read[0].reward == first[0].reward);
  CHECK(read[0].rollout_log_probs == first[0].rollout_log_probs);
  CHECK(read[0].temperature == first[0].temperature);
  CHECK(read[1].rollout_log_probs.empty());
  CHECK(reader.step(1)[1].uid == "e0-r2");
}

TEST_CASE("optional fields have their defaults") {
  const ScratchFile file(row("a"));
  const auto read = ReplayReader(options_for(file, 1, 1)).step(0);
  CHECK(read[0].response_mask == std::vector<uint8_t>{1, 1});
  CHECK(read[0].temperature == 1);
  CHECK(read[0].rollout_log_probs.empty());
  CHECK(read[0].data_source.empty());
}

TEST_CASE("every bad field is named with line, value and what is valid") {
  const ScratchFile file(
      R"({"uid":7,"prompt_ids":[],"response_ids":[1,-2],"reward":"x"})"
      "\n" +
      row("a") +
      R"({"uid":"a","prompt_ids":[1,100],"response_ids":[2,3.0],"reward":null})"
      "\n"
      R"({"uid":"a","prompt_ids":[1],"response_ids":[2,3],"reward":1,"response_mask":[1],"rollout_log_probs":[-1,"x"],"temperature":0})"
      "\n"
      R"({"uid":"","prompt_ids":5,"response_ids":[1,2,3,4,5],"reward":1e999})"
      "\n"
      R"({"uid":"a","prompt_ids":[1],"response_ids":[2],"reward":1,"response_mask":[2]})"
      "\n"
      "[]\nnope\n");
  const std::string at = "\n  " + file.path + ":";
  CHECK(message_of(options_for(file, 1, 1)) ==
        kKey + std::string("7 bad rows:") + at + "1: uid is 7; valid: a string, not empty" + at +
            "1: prompt_ids is []; valid: a list of token ids from 0 to 99, not empty" + at +
            "1: response_ids[1] is -2; valid: token ids from 0 to 99" + at +
            "1: reward is \"x\"; valid: a finite number" + at +
            "3: prompt_ids[1] is 100; valid: token ids from 0 to 99" + at +
            "3: response_ids[1] is 3.0; valid: token ids from 0 to 99" + at +
            "3: reward is null; valid: a finite number" + at +
            "4: response_mask has 1 entry; valid: 2, one for each of response_ids" + at +
            "4: rollout_log_probs[1] is \"x\"; valid: a finite number of at most 0" + at +
            "4: temperature is 0; valid: a finite number above 0" + at +
            "5: not JSON: number overflow parsing '1e999'" + at +
            "6: response_mask[0] is 2; valid: 0 or 1" + at + "7: the row is []; valid: an object" +
            at +
            "8: not JSON: column 2: syntax error while parsing value - "
            "invalid literal; last read: 'no'");
}

TEST_CASE("lengths past the configured ones and lists of another kind are refused") {
  const ScratchFile file(
      R"({"uid":"","prompt_ids":5,"response_ids":[1,2,3,4,5],"reward":1,"response_mask":1})"
      "\n");
  const std::string at = "\n  " + file.path + ":1: ";
  CHECK(message_of(options_for(file, 1, 1)) ==
        kKey + std::string("1 bad row:") + at + "uid is \"\"; valid: a string, not empty" + at +
            "prompt_ids is 5; valid: a list of token ids from 0 to 99, not empty" + at +
            "response_ids has 5 tokens; valid: 1 to data.max_response_length=4" + at +
            "response_mask is 1; valid: a list with one entry for each of response_ids");
}

TEST_CASE("a uid with another count than n is a broken group") {
  const ScratchFile file(row("a") + row("a") + row("b") + row("b") +  //
                         row("c") + row("c") + row("c") + row("d"));
  CHECK(message_of(options_for(file, 2, 2)) ==
        kKey + file.path +
            ": step 1 (lines 5 to 8) has 3 rows with uid \"c\"; valid: "
            "actor_rollout_ref.rollout.n=2 of each of data.train_batch_size=2 uids");
}

TEST_CASE("the same uid may come again in another step") {
  const ScratchFile file(row("a") + row("b") + row("b") + row("a"));
  CHECK(ReplayReader(options_for(file, 2, 1)).steps() == 2);
}

TEST_CASE("too few rows are refused with the counts") {
  const ScratchFile file(row("a") + row("a") + row("b"));
  const ReplayReader reader(options_for(file, 1, 2));
  CHECK(reader.steps() == 1);
  const std::string message = kKey + file.path +
                              " has 3 rows, enough for 1 step of data.train_batch_size=1 x "
                              "actor_rollout_ref.rollout.n=2 rows; 2 steps need 4 rows";
  CHECK_NOTHROW(reader.require_steps(1));
  CHECK_THROWS_WITH(reader.require_steps(2), message);
  CHECK_THROWS_WITH(reader.step(1), message);
}

TEST_CASE("missing and empty files are named") {
  ReplayOptions options = options_for(ScratchFile(), 1, 1);
  CHECK(message_of(options) == kKey + options.path + " does not exist");
  const ScratchFile empty("\n");
  CHECK(message_of(options) == kKey + options.path + " is empty");
  options.path = std::filesystem::temp_directory_path().string();
  CHECK(message_of(options) == kKey + options.path + " is a folder, not a file");
}

TEST_CASE("a resumed recording drops what the steps to come wrote before") {
  const ScratchFile file(row("a") + row("b") + row("c") + R"({"uid":)");
  Trajectory next{.uid = "n",
                  .data_source = "",
                  .prompt_ids = {1},
                  .response_ids = {2},
                  .response_mask = {1},
                  .rollout_log_probs = {}};
  ReplayWriter(file.path, 2).write_step(std::span(&next, 1));
  CHECK(file.text() == row("a") + row("b") +
                           R"({"uid":"n","prompt_ids":[1],"response_ids":[2],"response_mask":[1],)"
                           R"("reward":0.0,"temperature":1.0})"
                           "\n");
  CHECK_THROWS_WITH(
      ReplayWriter(file.path, 4),
      "actor_rollout_ref.rollout.record_path: " + file.path +
          " has 3 rows; the steps before the resumed one wrote 4; set it to a file of "
          "its own");
}

TEST_CASE("a recording that cannot be written is the machine's fault") {
  CHECK_THROWS_AS(ReplayWriter("/dev/null/x.jsonl", 0), DeviceError);
}

TEST_CASE("a file that is no recording is told apart, a recording's torn begin is one") {
  CHECK(ReplayWriter::why_foreign("/nowhere/rows.jsonl").empty());
  const std::string begin = "{\"uid\":\"a";
  const std::string ours[]{"",     row("a"), row("a") + "torn",
                           "{\"u", begin,    begin + std::string(9, 0) + "\n"};
  for (const std::string& text : ours) {
    INFO(text);
    const ScratchFile file(text);
    CHECK(ReplayWriter::why_foreign(file.path).empty());
  }
  const std::string others[]{"\n", "my notes\n", "hello",        "{\"step\":1,\"data\":{}}\n",
                             "[]", begin + "\n", "{\"uid\":1}\n"};
  for (const std::string& text : others) {
    INFO(text);
    const ScratchFile file(text);
    CHECK(ReplayWriter::why_foreign(file.path) ==
          "holds something else than recorded trajectories");
    CHECK(file.text() == text);
  }
}

TEST_CASE("a recording counts its rows, those that are kept among them") {
  const ScratchFile file(row("a") + row("b"));
  ReplayWriter writer(file.path, 1);
  CHECK(writer.rows() == 1);
  const std::vector<Trajectory> more(3, {.uid = "n",
                                         .data_source = "",
                                         .prompt_ids = {1},
                                         .response_ids = {2},
                                         .response_mask = {1},
                                         .rollout_log_probs = {}});
  writer.write_step(more);
  CHECK(writer.rows() == 4);
}
