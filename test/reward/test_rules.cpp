#include <algorithm>

#include "base/error.h"
#include "reward/cycle.h"
#include "reward/rules.h"
#include "support/catch.h"

using namespace verlcpp;
using namespace verlcpp::reward;

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

namespace {

data::PromptRow row(std::string source, std::string truth, std::string origin) {
  data::PromptRow made;
  made.data_source = std::move(source);
  made.ground_truth = std::move(truth);
  made.origin = std::move(origin);
  return made;
}

const std::string kImplemented =
    "implemented: openai/gsm8k, lighteval/MATH, DigitalLearningGmbH/MATH-lighteval, "
    "HuggingFaceH4/MATH-500, math_dapo, math, math_dapo_reasoning, aime*, hiyouga/geometry3k, "
    "searchR1_nq, searchR1_triviaqa, searchR1_popqa, searchR1_hotpotqa, searchR1_2wikimultihopqa, "
    "searchR1_musique, searchR1_bamboogle, verlcpp/cycle; for any other, "
    "reward.custom_reward_function.path names a program of yours";

double score(const std::string& source, const std::string& response, const std::string& truth) {
  return compute_score(row(source, truth, "x"), response).score;
}

}  // namespace

TEST_CASE("compute_score picks the scorer by data_source") {
  CHECK(score("openai/gsm8k", "#### 72", "72") == 1);
  CHECK(compute_score(row("openai/gsm8k", "72", "x"), "it is 72", Gsm8kMethod::kFlexible).score ==
        1);
  CHECK(score("verlcpp/cycle", "bc", "a 4 8") == 0.5);
  for (const char* source :
       {"lighteval/MATH", "DigitalLearningGmbH/MATH-lighteval", "HuggingFaceH4/MATH-500"}) {
    CHECK(score(source, "\\boxed{1/2}", "\\frac12") == 1);
    CHECK(score(source, "Answer: 3", "3") == 0);
  }
  for (const char* source : {"math_dapo", "math", "math_dapo_reasoning", "aime", "aime2024"}) {
    CHECK(score(source, "Answer: 3", "3") == 1);
    CHECK(score(source, "Answer: 4", "3") == -1);
  }
  CHECK(score("hiyouga/geometry3k", "\\boxed{3}", "3") == 0.9);
  CHECK_THROWS_WITH(score("mine", "x", "y"),
                    "Reward function is not implemented for data_source='mine'; " + kImplemented);
}

TEST_CASE("extras are verl's: acc for a number, the whole result for DAPO") {
  const Reward plain = compute_score(row("openai/gsm8k", "7", "x"), "#### 7");
  REQUIRE(plain.extras.size() == 1);
  CHECK(plain.extras[0].name == "acc");
  CHECK(plain.extras[0].number == 1.0);
  const Reward dapo = compute_score(row("math", "7", "x"), "Answer: \"8\" cm");
  REQUIRE(dapo.extras.size() == 3);
  CHECK(dapo.extras[0].json == "-1.0");
  CHECK(dapo.extras[1].name == "acc");
  CHECK(dapo.extras[1].json == "false");
  CHECK(dapo.extras[1].number == 0.0);
  CHECK(dapo.extras[2].name == "pred");
  CHECK(dapo.extras[2].json == "\"8\"");
  CHECK_FALSE(dapo.extras[2].number.has_value());
}

TEST_CASE("searchR1 rows need targets, the others a text") {
  data::PromptRow search = row("searchR1_nq", R"({"target":["Paris","paris, France"]})", "x");
  CHECK(why_not_scored(search) != "");  // a string, no object
  search.ground_truth_json = search.ground_truth;
  CHECK(why_not_scored(search) == "");
  CHECK(compute_score(search, "<answer> The Paris! </answer>").score == 1);
  CHECK(compute_score(search, "Paris").score == 0);
  search.data_source = "openai/gsm8k";
  CHECK_THAT(why_not_scored(search),
             Catch::Matchers::ContainsSubstring("valid: a string or a number"));
  for (const char* bad :
       {R"({"target":[]})", R"({"target":[1]})", R"({"target":{"a":"b"}})", "[]"}) {
    CAPTURE(bad);
    search.data_source = "searchR1_nq";
    search.ground_truth_json = bad;
    CHECK(why_not_scored(search) != "");
  }
}

TEST_CASE("what verl scores and we do not is refused with the reason") {
  CHECK_THAT(why_not_scored(row("numina_cn_k12", "1", "a:1")),
             Catch::Matchers::ContainsSubstring("verl's prime_math grader"));
  CHECK_THAT(why_not_scored(row("taco", "1", "a:1")),
             Catch::Matchers::ContainsSubstring("in a sandbox"));
}

TEST_CASE("rows that nobody can score are told with what would be valid") {
  CHECK(why_not_scored(row("openai/gsm8k", "7", "")) == "");
  CHECK(why_not_scored(row("verlcpp/cycle", "a 8 32", "")) == "");
  CHECK(why_not_scored(row("mine", "7", "")) ==
        "Reward function is not implemented for data_source='mine'; " + kImplemented);
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
    CHECK(compute_score(shipped, answer).score == 1);
  }
  CHECK(shortest == 2);
  CHECK(longest == 96);
}
