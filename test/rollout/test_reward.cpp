#include <algorithm>

#include "base/error.h"
#include "rollout/reward.h"
#include "support/catch.h"

using namespace verlcpp;
using namespace verlcpp::rollout;

TEST_CASE("gsm8k: the last marked number must equal the ground truth") {
  CHECK(score_gsm8k("so 3 + 4\n#### 7", "7") == 1);
  CHECK(score_gsm8k("#### 7 no, #### 8", "7") == 0);
  CHECK(score_gsm8k("#### 7 no, #### 8", "8") == 1);
  CHECK(score_gsm8k("#### 7 then #### none", "7") == 1);  // the last one with a number
  CHECK(score_gsm8k("####7", "7") == 0);                  // the space is part of the mark
  CHECK(score_gsm8k("##### 7", "7") == 1);
  CHECK(score_gsm8k("the answer is 7", "7") == 0);
  CHECK(score_gsm8k("", "7") == 0);
}

TEST_CASE("gsm8k: commas are dropped, everything else is compared letter for letter") {
  CHECK(score_gsm8k("#### 1,234", "1234") == 1);
  CHECK(score_gsm8k("#### -12 apples", "-12") == 1);
  CHECK(score_gsm8k("#### 7.0", "7") == 0);
  CHECK(score_gsm8k("#### 7.", "7") == 0);  // the dot belongs to the number
  CHECK(score_gsm8k("#### 7.", "7.") == 1);
  CHECK(score_gsm8k("#### $7", "7") == 0);  // no number follows the mark
  CHECK(score_gsm8k("#### --7", "7") == 0);
}

TEST_CASE("gsm8k: only the last 300 characters are searched, counted as characters") {
  const std::string mark = "#### 7";  // 6 characters
  CHECK(score_gsm8k(mark + std::string(294, 'x'), "7") == 1);
  CHECK(score_gsm8k(mark + std::string(295, 'x'), "7") == 0);
  std::string accents;
  for (int i = 0; i < 294; ++i) accents += "\xC3\xA9";
  CHECK(score_gsm8k(mark + accents, "7") == 1);
  CHECK(score_gsm8k(mark + accents + "x", "7") == 0);
}

TEST_CASE("cycle: right steps over the larger of length and LOW") {
  CHECK(score_cycle("bcda", "a 2 8") == 1);
  CHECK(score_cycle("ab", "d 2 8") == 1);
  CHECK(score_cycle("b", "a 2 8") == 0.5);  // too short: one right step of two wanted
  CHECK(score_cycle("", "a 2 8") == 0);
  CHECK(score_cycle("bcaa", "a 2 8") == 0.5);    // b, c right; a after c and a after a are not
  CHECK(score_cycle("cdab", "a 2 8") == 0.75);   // a wrong start costs that step alone
  CHECK(score_cycle("bc.d", "a 2 8") == 0.5);    // nothing follows a foreign character
  CHECK(score_cycle("bcdabc", "a 2 3") == 0.5);  // what lies past HIGH counts as wrong
  CHECK(score_cycle("zzzz", "a 2 8") == 0);
}

TEST_CASE("compute_score picks the scorer by data_source") {
  CHECK(compute_score("openai/gsm8k", "#### 72", "72") == 1);
  CHECK(compute_score("verlcpp/cycle", "bc", "a 4 8") == 0.5);
  CHECK_THROWS_WITH(compute_score("lighteval/MATH", "x", "y"),
                    "Reward function is not implemented for data_source='lighteval/MATH'; "
                    "implemented: openai/gsm8k, verlcpp/cycle");
}

namespace {

data::PromptRow row(std::string source, std::string truth, std::string origin) {
  data::PromptRow made;
  made.data_source = std::move(source);
  made.ground_truth = std::move(truth);
  made.origin = std::move(origin);
  return made;
}

}  // namespace

TEST_CASE("rows that nobody can score are told with what would be valid") {
  CHECK(why_not_scored(row("openai/gsm8k", "7", "")) == "");
  CHECK(why_not_scored(row("verlcpp/cycle", "a 8 32", "")) == "");
  CHECK(why_not_scored(row("mine", "7", "")) ==
        "Reward function is not implemented for data_source='mine'; implemented: openai/gsm8k, "
        "verlcpp/cycle");
  CHECK(why_not_scored(row("verlcpp/cycle", "a 9 8", "")) ==
        "verlcpp/cycle: reward_model.ground_truth is \"a 9 8\"; valid: LETTER LOW HIGH, such as "
        "\"b 8 32\" (a to d, 1 <= LOW <= HIGH)");
  CHECK(why_not_scored(row("verlcpp/cycle", "", ""), false) == "");
  CHECK(why_not_scored(row("mine", "", ""), false) != "");
}

TEST_CASE("a cycle ground truth has one letter and two lengths") {
  for (const char* bad : {"", "a", "e 1 2", "a 0 2", "a 1", "a 1 2x", "a  1 2", "ab 1 2", "a -1 2",
                          "a 1 2 3", "a 99999999999999999999 2"}) {
    CAPTURE(bad);
    CHECK(why_not_scored(row("verlcpp/cycle", bad, "x")) != "");
  }
}

TEST_CASE("every shipped quickstart row can be scored, and walking on earns full marks") {
  data::PromptOptions options;
  options.train_files = {VERLCPP_SOURCE "/scripts/quickstart/train.jsonl"};
  const auto rows = data::read_prompts(options);
  size_t shortest = 1000, longest = 0;
  for (const auto& shipped : rows) {
    CHECK(why_not_scored(shipped) == "");
    const std::string& prompt = shipped.prompt.at(0).content;
    shortest = std::min(shortest, prompt.size());
    longest = std::max(longest, prompt.size());
    const int low = std::stoi(shipped.ground_truth.substr(2));
    std::string answer;
    for (int i = 0; i < low; ++i) {
      const char before = answer.empty() ? prompt.back() : answer.back();
      answer += before == 'd' ? 'a' : static_cast<char>(before + 1);
    }
    CHECK(compute_score(shipped.data_source, answer, shipped.ground_truth) == 1);
  }
  CHECK(shortest == 2);
  CHECK(longest == 96);
}
