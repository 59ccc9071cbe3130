#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <set>

#include "base/error.h"
#include "data/prompts.h"
#include "support/catch.h"

using Catch::Matchers::ContainsSubstring;
using namespace verlcpp;
using namespace verlcpp::data;

namespace {

/// A folder of its own for one test, removed at the end.
struct Folder {
  std::filesystem::path path =
      std::filesystem::temp_directory_path() / ("verlcpp_prompts_" + std::to_string(::getpid()));
  Folder() { std::filesystem::create_directories(path); }
  ~Folder() { std::filesystem::remove_all(path); }
  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(path / name, std::ios::binary) << text;
    return (path / name).string();
  }
};

PromptOptions options_for(std::vector<std::string> files) {
  PromptOptions options;
  options.train_files = std::move(files);
  return options;
}

std::string message_of(const PromptOptions& options) {
  try {
    read_prompts(options);
  } catch (const DataError& error) {
    return error.what();
  }
  return "no error";
}

const std::string kRow =
    R"({"data_source":"d","prompt":[{"role":"system","content":"s"},{"role":"user","content":"u"}],)"
    R"("reward_model":{"style":"rule","ground_truth":"7"},"extra_info":{"index":3}})";

}  // namespace

TEST_CASE("prompt rows in verl's columns are read from lines and from an array") {
  const Folder folder;
  const auto lines = folder.write(
      "a.jsonl", "\xEF\xBB\xBF" + kRow + "\r\n\n" +
                     R"({"data_source":"e","prompt":"hi","reward_model":{"ground_truth":72}})");
  const auto array = folder.write("b.json", "\n[" + kRow + ",\n" + kRow + "]\n");
  const auto rows = read_prompts(options_for({lines, array}));
  REQUIRE(rows.size() == 4);
  CHECK(rows[0].data_source == "d");
  REQUIRE(rows[0].prompt.size() == 2);
  CHECK(rows[0].prompt[0].role == "system");
  CHECK(rows[0].prompt[1].content == "u");
  CHECK(rows[0].ground_truth == "7");
  CHECK(rows[0].extra_json == R"({"index":3})");
  CHECK(rows[0].origin == lines + ":1");
  CHECK(rows[1].prompt.size() == 1);
  CHECK(rows[1].prompt[0].role == "user");
  CHECK(rows[1].prompt[0].content == "hi");
  CHECK(rows[1].ground_truth == "72");
  CHECK(rows[1].extra_json.empty());
  CHECK(rows[1].origin == lines + ":3");
  CHECK(rows[3].origin == array + "[1]");
  CHECK(rows[3].row == 3);
}

TEST_CASE("a .json file may hold one object a line, and columns may be renamed") {
  const Folder folder;
  PromptOptions options = options_for(
      {folder.write("a.json", R"({"source":"d","question":"q","reward_model":{"ground_truth":1.5}})"
                              "\n")});
  options.prompt_key = "question";
  options.reward_fn_key = "source";
  const auto rows = read_prompts(options);
  REQUIRE(rows.size() == 1);
  CHECK(rows[0].data_source == "d");
  CHECK(rows[0].ground_truth == "1.5");
}

TEST_CASE("every bad row is named with file, line, field, value and what is valid") {
  const Folder folder;
  const auto file = folder.write(
      "bad.jsonl",
      "[1]\n"
      "{\"prompt\":\n"
      R"({"data_source":5,"prompt":[],"reward_model":{"ground_truth":null}})"
      "\n" +
          kRow + "\n" +
          R"({"prompt":[{"role":"user","content":[1]},3,{"content":"x"}],"reward_model":4,"data_source":"d"})"
          "\n"
          R"({"prompt":"p","data_source":"d","reward_model":{}})"
          "\n"
          "{}\n");
  // The first character makes it an array file; put a blank object line first to read lines.
  const auto lines = folder.write(
      "lines.jsonl", "7\n" + [&] {
        std::ifstream in(file);
        return std::string(std::istreambuf_iterator<char>(in), {});
      }());
  const std::string at = "\n  " + lines;
  CHECK(
      message_of(options_for({lines})) ==
      "data.train_files: 7 bad rows:" + at +
          ":1, 2 (2 rows), the first: the row is 7; valid: a JSON object" + at +
          ":3: not JSON: column 11: syntax error while parsing value - "
          "unexpected end of input; expected '[', '{', or a literal" +
          at +
          R"(:4: prompt is []; valid: a string, or a list of {"role": ..., "content": ...}, not empty)" +
          at + ":4: data_source is 5; valid: a string that names the reward function" + at +
          ":4, 7 (2 rows): reward_model.ground_truth is missing; valid: a string, a number, a list "
          "or an object" +
          at +
          R"(:6: prompt[0].content[0] is 1; valid: {"type": "text", "text": "..."} (text only))" +
          at + R"(:6: prompt[1] is 3; valid: {"role": ..., "content": ...})" + at +
          ":6: prompt[2].role is missing; valid: a string" + at +
          R"(:6: reward_model is 4; valid: {"ground_truth": ...})" + at +
          R"(:8: prompt is missing; valid: a string, or a list of {"role": ..., "content": ...})" +
          at + ":8: data_source is missing; valid: a string that names the reward function" + at +
          R"(:8: reward_model is missing; valid: {"ground_truth": ...})");
}

TEST_CASE("the first five rows of a mistake are shown and the rest counted") {
  const Folder folder;
  std::string text;
  for (int i = 0; i < 25; ++i) text += "1\n";
  const auto a = folder.write("a.jsonl", "1\n1\n"), b = folder.write("b.jsonl", text);
  CHECK(message_of(options_for({a, b})) ==
        "data.train_files: 27 bad rows:\n  " + a + ":1, 2, " + b +
            ":1, 2, 3 and 22 more (27 rows): the row is 1; valid: a JSON object");
}

TEST_CASE("long values are cut, on a whole character") {
  const Folder folder;
  std::string text = "{\"a\":\"";
  for (int i = 0; i < 60; ++i) text += "\xC3\xA9";
  const auto file = folder.write("a.jsonl", "[\"" + text.substr(6) + "\"");
  const auto array = folder.write("b.json", "[\"" + text.substr(6) + "\"]");
  CHECK(message_of(options_for({array})).find("\xC3\xA9...; valid: a JSON object") !=
        std::string::npos);
}

TEST_CASE("files that cannot be read are named together") {
  const Folder folder;
  const auto empty = folder.write("empty.jsonl", " \n");
  const auto root = folder.path.string();
  std::filesystem::create_directories(folder.path / "dir.json");
  CHECK(message_of(
            options_for({root + "/none.jsonl", root + "/dir.json", empty, "x.parquet", "y.csv"})) ==
        "data.train_files cannot be read:\n  " + root + "/none.jsonl does not exist\n  " + root +
            "/dir.json is a folder, not a file\n  " + empty +
            " is empty\n  x.parquet does not exist\n  "
            "y.csv: the ending '.csv' is not known; .parquet, .json and .jsonl are read");
  CHECK(message_of(options_for({folder.write("e.json", "[]")})) ==
        "data.train_files: there is no row in the files");
  CHECK(message_of(options_for({folder.write("f.json", "[1,")})) ==
        "data.train_files: " + root +
            "/f.json is not JSON: line 1, column 4: syntax error while parsing value "
            "- unexpected end of input; expected '[', '{', or a literal");
  CHECK_THROWS_AS(read_prompts(options_for({})), ConfigError);
}

TEST_CASE("a value nested without end is refused, not followed") {
  const Folder folder;
  const std::string deep(100000, '[');
  const auto message =
      message_of(options_for({folder.write("a.jsonl", "{\"extra_info\":" + deep + "\n")}));
  CHECK(message.find("a.jsonl:1: nested deeper than 64") != std::string::npos);
}

TEST_CASE("rows that a language model answering once would take wrongly are bad rows") {
  const Folder folder;
  const std::string rest = R"("data_source": "a", "reward_model": {"ground_truth": "1"}, )"
                           R"("prompt": [{"role": "user", "content": "x"}])";
  const auto file = [&](const std::string& more) {
    return message_of(options_for({folder.write("a.jsonl", "{" + rest + ", " + more + "}\n")}));
  };
  CHECK_THAT(file(R"("images": [{"bytes": "x"}, {}])"),
             ContainsSubstring("images is 2; valid: none"));
  CHECK_THAT(file(R"("videos": [1])"), ContainsSubstring("videos is 1; valid: none"));
  CHECK_THAT(file(R"("agent_name": "tool_agent")"),
             ContainsSubstring("agent_name is \"tool_agent\"; valid: single_turn_agent"));
  CHECK(
      read_prompts(options_for({folder.write("b.jsonl", "{" + rest +
                                                            R"(, "images": [], "videos": null, )"
                                                            R"("agent_name": "single_turn_agent"})"
                                                            "\n")}))
          .size() == 1);
  const std::string text =
      R"({"data_source": "a", "reward_model": {"ground_truth": "1"}, "prompt": )";
  CHECK_THAT(message_of(options_for(
                 {folder.write("c.jsonl", text + R"("[{\"role\": \"user\", \"content\": \"x\"}]"})"
                                                 "\n")})),
             ContainsSubstring("(this is a list of them as text)"));
  CHECK(read_prompts(options_for({folder.write("d.jsonl", text + R"("[1, 2] + [3] = ?"})"
                                                                 "\n")}))
            .size() == 1);
}

TEST_CASE("kinds of problems beyond twenty are counted; a row has one fate") {
  RowReport report("data.train_files");
  CHECK_THROWS_WITH(report.throw_if_unusable(), "data.train_files: there is no row in the files");
  for (int i = 0; i < 23; ++i) {
    report.next_row("a.json[" + std::to_string(i) + "]");
    report.add("kind " + std::to_string(i), "wrong");
    report.add("long", "long", Fate::kDropped);
    CHECK(report.row_has_problem());
  }
  report.next_row("a.json[23]");
  CHECK(!report.row_has_problem());
  CHECK(report.rows() == 24);
  CHECK(report.bad_rows() == 23);
  CHECK(report.dropped_rows() == 0);  // those stop the run already
  report.next_row("a.json[24]");
  report.add("long", "longer", Fate::kDropped);
  CHECK(report.dropped_rows() == 1);
  std::string message;
  try {
    report.throw_if_unusable();
  } catch (const DataError& error) {
    message = error.what();
  }
  CHECK(message.find("\n  a.json[19]: wrong\n  and 3 more kinds of problems\n  dropped (") !=
        std::string::npos);
  CHECK(message.ends_with(
      "\n  a.json[0], [1], [2], [3], [4] and 19 more (24 rows), the first: long"));
}

TEST_CASE("~ is the home folder") {
  const std::string home = std::getenv("HOME") != nullptr ? std::getenv("HOME") : "";
  CHECK(expand_home("~/x") == home + "/x");
  CHECK(expand_home("~") == home);
  CHECK(expand_home("a/~/x") == "a/~/x");
  CHECK(expand_home("~user/x") == "~user/x");
}

TEST_CASE("subsampling keeps the first rows, or draws without replacement by the seed") {
  CHECK(sample_rows(50, 3, false, 1) == std::vector<int64_t>{0, 1, 2});
  const auto drawn = sample_rows(50, 20, true, 1);
  CHECK(drawn.size() == 20);
  CHECK(std::set<int64_t>(drawn.begin(), drawn.end()).size() == 20);
  CHECK(drawn == sample_rows(50, 20, true, 1));
  CHECK(drawn != sample_rows(50, 20, true, 2));
  std::vector<int64_t> all(50);
  std::iota(all.begin(), all.end(), 0);
  CHECK(sample_rows(50, -1, true, 1) == all);
  CHECK(sample_rows(50, 50, true, 1) == all);
  CHECK(sample_rows(50, 60, false, 1) == all);
  CHECK_THROWS_WITH(sample_rows(50, 0, true, 1),
                    "data.train_max_samples is 0; valid: -1 (all) or a positive number of rows");
}

TEST_CASE("an epoch takes each row at most once and drops the incomplete batch") {
  const PromptOrder order(10, 3, true, 7);
  CHECK(order.steps_per_epoch() == 3);
  CHECK(order.epoch(2) == 0);
  CHECK(order.epoch(3) == 1);
  std::set<int64_t> seen;
  for (int64_t step = 0; step < 3; ++step) {
    const auto batch = order.indices(step);
    CHECK(batch.size() == 3);
    seen.insert(batch.begin(), batch.end());
  }
  CHECK(seen.size() == 9);
  CHECK(*seen.begin() >= 0);
  CHECK(*seen.rbegin() <= 9);
  CHECK(order.indices(0) != order.indices(3));
  CHECK(order.indices(4) == PromptOrder(10, 3, true, 7).indices(4));
  CHECK(order.indices(0) != PromptOrder(10, 3, true, 8).indices(0));
}

TEST_CASE("without shuffle the order is the file's, every epoch") {
  const PromptOrder order(7, 3, false, 7);
  CHECK(order.indices(1) == std::vector<int64_t>{3, 4, 5});
  CHECK(order.indices(2) == std::vector<int64_t>{0, 1, 2});
}

TEST_CASE("a batch larger than the data is refused") {
  CHECK_THROWS_WITH(PromptOrder(5, 6, true, 1),
                    "data.train_batch_size is 6; valid: 1 to 5, the number of rows read");
  CHECK_THROWS_AS(PromptOrder(5, 0, true, 1), ConfigError);
}

TEST_CASE("uids tell prompts and epochs apart") {
  CHECK(sample_uid(0, 12) != sample_uid(1, 12));
  CHECK(sample_uid(1, 2) == "e1-r2");
}
