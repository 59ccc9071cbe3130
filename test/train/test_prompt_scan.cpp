#include <filesystem>
#include <fstream>
#include <iterator>

#include "base/error.h"
#include "support/catch.h"
#include "support/temporary_folder.h"
#include "train/prompt_scan.h"
#if VERLCPP_PARQUET
#include "../data/parquet_writer.h"
#endif

using namespace verlcpp;
using test::TemporaryFolder;
using train::Prompts;

namespace {

/// What a run of `file` with prompts of at most ten tokens asks for.
train::DataConfig config_for(const std::string& file) {
  train::DataConfig config;
  config.train_files = {file};
  config.prompt_key = "prompt";
  config.reward_fn_key = "data_source";
  config.max_prompt_length = 10;
  config.shuffle = false;
  config.truncation = "error";
  return config;
}

/// Scanned with the quickstart's tokenizer: a token a character, of ".:#abcd", and no chat
/// template.
Prompts scan(const train::DataConfig& config) {
  const std::string model = VERLCPP_SOURCE "/scripts/quickstart/model";
  return train::scan_prompts(config, train::train_prompt_files(config),
                             data::Tokenizer::load(model), data::load_chat_template(model),
                             reward::Manager({}, [] {}), [] {});
}

std::string report(const train::DataConfig& config) {
  try {
    scan(config);
  } catch (const DataError& error) {
    return error.what();
  }
  return "no error";
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size()) {
    text.replace(at, from.size(), to);
  }
  return text;
}

std::string row(const std::string& content, const std::string& role = "user") {
  return R"({"data_source":"verlcpp/cycle","prompt":[{"role":")" + role + R"(","content":")" +
         content + R"("}],"reward_model":{"ground_truth":"a 2 8"}})" + "\n";
}

const std::string kTwelve = VERLCPP_SOURCE "/test/data/bad_rows/twelve.jsonl";
const std::string kTwelveReport =
    R"(data.train_files: 11 bad rows:
  FILE:2: prompt is missing; valid: a string, or a list of {"role": ..., "content": ...}
  FILE:3: prompt is []; valid: a string, or a list of {"role": ..., "content": ...}, not empty
  FILE:4: prompt[0] is null; valid: {"role": ..., "content": ...}
  FILE:4: prompt[1].content is missing; valid: a string
  FILE:5: prompt[0].role is missing; valid: a string
  FILE:6: prompt[0].role is "robot"; valid: system, developer, user, assistant, tool
  FILE:7: data_source is missing; valid: a string that names the reward function
  FILE:7: reward_model is missing; valid: {"ground_truth": ...}
  FILE:8: Reward function is not implemented for data_source='my/own'; implemented: openai/gsm8k, lighteval/MATH, DigitalLearningGmbH/MATH-lighteval, HuggingFaceH4/MATH-500, math_dapo, math, math_dapo_reasoning, aime*, hiyouga/geometry3k, searchR1_nq, searchR1_triviaqa, searchR1_popqa, searchR1_hotpotqa, searchR1_2wikimultihopqa, searchR1_musique, searchR1_bamboogle, verlcpp/cycle; for any other, reward.custom_reward_function.path names a program of yours
  FILE:9: reward_model.ground_truth is missing; valid: a string, a number, a list or an object
  FILE:10: verlcpp/cycle: reward_model.ground_truth is "seven"; valid: LETTER LOW HIGH, such as "b 8 32" (a to d, 1 <= LOW <= HIGH)
  FILE:11: MODEL/tokenizer.json: byte 0x78 near "..x" is not in the vocabulary of this tokenizer
  FILE:12: the prompt has 25 tokens, data.max_prompt_length is 10; raise it, set data.filter_overlong_prompts=True, or data.truncation to left, right or middle)";

}  // namespace

TEST_CASE("one report names every kind of bad row") {
  const std::string text = replaced(report(config_for(kTwelve)), kTwelve, "FILE");
  CHECK(replaced(text, VERLCPP_SOURCE "/scripts/quickstart/model", "MODEL") == kTwelveReport);
}

#if VERLCPP_PARQUET
TEST_CASE("the same rows give the same report from Parquet and JSON lines") {
  std::ifstream in(kTwelve);
  const std::string rows((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  const TemporaryFolder folder;
  const std::string parquet = folder.path() + "/twelve.parquet";
  for (const int64_t rows_per_group : {1, 5, 100}) {
    test::write_parquet(parquet, rows, {.rows_per_group = rows_per_group, .schema = nullptr});
    CHECK(replaced(report(config_for(parquet)), parquet, kTwelve) == report(config_for(kTwelve)));
    train::DataConfig filtering = config_for(parquet);
    filtering.filter_overlong_prompts = true;
    train::DataConfig lines = filtering;
    lines.train_files = {kTwelve};
    CHECK(replaced(report(filtering), parquet, kTwelve) == report(lines));
  }
}
#endif

TEST_CASE("a filter drops prompts that are too long or do not render, after sampling") {
  const TemporaryFolder folder;
  const std::string file = folder.write(
      "rows.jsonl", row("...........a") + row("a") + row("a", "robot") + row("x") + row(".b"));
  train::DataConfig config = config_for(file);
  config.filter_overlong_prompts = true;
  const Prompts all = scan(config);
  REQUIRE(all.rows.size() == 2);
  CHECK(all.rows[0].origin == file + ":2");
  CHECK(all.rows[1].row == 4);
  CHECK(all.ids[1].size() == 2);
  config.train_max_samples = 2;
  CHECK(scan(config).rows.size() == 1);
  config.train_max_samples = 1;
  CHECK(report(config) ==
        "data.train_files: no row can be used; all 1 that data.train_max_samples took are dropped "
        "(data.filter_overlong_prompts=True)");
  config.max_prompt_length = 0;
  CHECK_THAT(report(config), Catch::Matchers::ContainsSubstring(
                                 "data.train_files: no row can be used; 5 rows dropped "
                                 "(data.filter_overlong_prompts=True):\n"));
}

TEST_CASE("rows that no sample takes are checked too, and samples follow the seed") {
  const TemporaryFolder folder;
  std::string text;
  for (int i = 0; i < 20; ++i) text += row("a");
  train::DataConfig config = config_for(folder.write("rows.jsonl", text));
  config.train_max_samples = 5;
  config.shuffle = true;
  const auto taken = [&] {
    std::vector<int64_t> out;
    for (const auto& one : scan(config).rows) out.push_back(one.row);
    return out;
  };
  const std::vector<int64_t> first = taken();
  CHECK(first.size() == 5);
  CHECK(first == taken());
  config.seed = 1;
  CHECK(first != taken());
  folder.write("rows.jsonl", text + "{}\n");
  CHECK_THAT(report(config), Catch::Matchers::ContainsSubstring("data.train_files: 1 bad row:"));
}

TEST_CASE("truncation keeps the end, the beginning or both halves") {
  const TemporaryFolder folder;
  train::DataConfig config = config_for(folder.write("rows.jsonl", row("abcd.:#aabbccdd")));
  const std::vector<int32_t> whole = [&] {
    config.max_prompt_length = 100;
    return scan(config).ids.at(0);
  }();
  REQUIRE(whole.size() == 15);
  using Ids = std::vector<int32_t>;
  config.max_prompt_length = 5;
  CHECK_THAT(report(config), Catch::Matchers::ContainsSubstring("the prompt has 15 tokens"));
  config.truncation = "left";
  CHECK(scan(config).ids.at(0) == Ids(whole.end() - 5, whole.end()));
  config.truncation = "right";
  CHECK(scan(config).ids.at(0) == Ids(whole.begin(), whole.begin() + 5));
  config.truncation = "middle";
  CHECK(scan(config).ids.at(0) == Ids{whole[0], whole[1], whole[12], whole[13], whole[14]});
}
