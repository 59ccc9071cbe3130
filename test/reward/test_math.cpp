#include "reward/geo3k.h"
#include "reward/grade_answer.h"
#include "reward/gsm8k.h"
#include "reward/hendrycks.h"
#include "reward/math.h"
#include "reward/math_dapo.h"
#include "reward/search_r1.h"
#include "support/catch.h"

using namespace verlcpp::reward;

namespace {

std::string normal(const std::string& text) {
  const auto out = normalize_math(to_text(text));
  return out ? to_utf8(*out) : "(raises)";
}

bool grade(const std::string& given, const std::string& truth) {
  return grade_answer(to_text(given), to_text(truth));
}

}  // namespace

TEST_CASE("gsm8k flexible: the last number counts, marked or not") {
  const auto flexible = [](std::string_view response, std::string_view truth) {
    return score_gsm8k(response, truth, Gsm8kMethod::kFlexible);
  };
  CHECK(flexible("so it is 72 apples", "72") == 1);
  CHECK(flexible("#### 72 or 73", "72") == 0);
  CHECK(flexible("it is 72 .", "72") == 1);     // a dot alone is passed over
  CHECK(flexible("it is 72.", "72") == 0);      // but not one behind a number
  CHECK(flexible("it is 1,234", "1234") == 0);  // commas stay
  CHECK(flexible("it is 1,234", "1,234") == 1);
  CHECK(flexible("3-5", "-5") == 1);
  CHECK(flexible("5 ,", ",") == 1);  // a comma counts as a number, as in verl
  CHECK(flexible(". .", ".") == 1);
  CHECK(flexible("none", "1") == 0);
}

TEST_CASE("MATH: the last box is what counts, in both of its forms") {
  CHECK(score_math("\\boxed{1} then \\boxed{2}", "2") == 1);
  CHECK(score_math("\\boxed{1} then \\boxed{2}", "1") == 0);
  CHECK(score_math("\\boxed{\\frac{1}{2}}", "\\frac{1}{2}") == 1);
  CHECK(score_math("$\\boxed 5$ done", "5") == 1);
  CHECK(score_math("\\boxed 5 done", "5") == 0);
  CHECK(score_math("\\boxed 5$ and \\boxed{6}", "5") == 1);  // the form with a space wins
  CHECK(score_math("\\fbox{5}", "5") == 0);                  // found, but no box to take off
  CHECK(score_math("\\boxed{5", "5") == 0);
  CHECK(score_math("5", "5") == 0);
  CHECK(score_math("", "") == 0);
  CHECK(score_math("\\boxed{}", "") == 1);
}

TEST_CASE("MATH: Hendrycks' normalisation") {
  CHECK(normal("\\frac12") == "\\frac{1}{2}");
  CHECK(normal("\\frac1{72}") == "\\frac{1}{72}");
  CHECK(normal("\\dfrac{1}{2}") == "\\frac{1}{2}");
  CHECK(normal("0.5") == "\\frac{1}{2}");
  CHECK(normal(".5") == "\\frac{1}{2}");
  CHECK(normal("3/4") == "\\frac{3}{4}");
  CHECK(normal("-3/4") == "\\frac{-3}{4}");
  CHECK(normal("03/4") == "03/4");
  CHECK(normal("a/b") == "a/b");
  CHECK(normal("\\sqrt3") == "\\sqrt{3}");
  CHECK(normal("2\\sqrt{3}") == "2\\sqrt{3}");
  CHECK(normal("x=5") == "5");
  CHECK(normal("abc=5") == "abc=5");
  CHECK(normal("\\left( 1, 2 \\right)") == "(1,2)");
  CHECK(normal("90^\\circ") == "90");
  CHECK(normal("50\\%") == "50");
  CHECK(normal("50%") == "50%");
  CHECK(normal("\\$18") == "18");
  CHECK(normal("18\\text{ cm}") == "18");
  CHECK(normal("18\\text{cm}") == "18\\text{cm}");
  CHECK(normal("1\\text{ a}2\\text{ b}") == "(raises)");
  CHECK(normal("\\sqrt") == "(raises)");
  CHECK(normal("\\frac") == "(raises)");
  CHECK(normal("\\frac1") == "\\frac1");
  CHECK(normal("\\sqrt\xC2\xBD"
               "3") == "\\sqrt{\xC2\xBD}3");            // one half is one character
  CHECK(score_math("\\boxed{\\sqrt}", "\\sqrt") == 1);  // compared as they are
}

TEST_CASE("DAPO: the last answer line, normalised") {
  const auto pred = [](std::string_view response) { return score_math_dapo(response, "?").pred; };
  CHECK(pred("Answer: 42") == "42");
  CHECK(pred("answer :42\nANSWER: 43\nthe end") == "43");
  CHECK(pred("Answer:\n\n  42") == "42");
  CHECK(pred("Answer: 1 Answer: 2") == "1Answer:2");
  CHECK(pred("Answer: $x = \\frac12$") == "\\frac{1}{2}");
  CHECK(pred("Answer: 12,345 dollars") == "12345");
  CHECK(pred("Answer: 1,2,x") == "1,2,x");
  CHECK(pred("Answer: so it is $5$ and not $6$") == "5");
  CHECK(pred("Answer: \\boxed{\\text{yes}}") == "yes");
  CHECK(pred("Answer: \\sqrt3 cm") == "\\sqrt{3}");
  CHECK(pred("Answer: mean 5") == "me5");
  CHECK(pred("no line") == "[INVALID]");
  CHECK(pred("Answer:") == "[INVALID]");
  CHECK(pred("Answer: ") == "");
  const DapoScore right = score_math_dapo("Answer: 1,000", "1000");
  CHECK(right.score == 1);
  CHECK(right.acc);
  CHECK(score_math_dapo("Answer: 7", "8").score == -1);
}

TEST_CASE("DAPO: a box counts where there is no answer line, letter for letter") {
  CHECK(score_math_dapo("\\boxed{7}", "7").score == 1);
  CHECK(score_math_dapo("\\boxed{7}", "7").pred == "7");
  CHECK(score_math_dapo("\\boxed{7.0}", "7").score == -1);
  CHECK(score_math_dapo("\\boxed{7} Answer: 8", "7").score == -1);
  CHECK(score_math_dapo("\\boxed{1,000}", "1000").score == -1);
  CHECK(score_math_dapo("\\boxed{7}" + std::string(91, 'x'), "7").score == 1);
  CHECK(score_math_dapo("\\boxed{7}" + std::string(92, 'x'), "7").score == -1);
  CHECK(score_math_dapo("Answer: 7\n" + std::string(290, 'x'), "7").score == 1);
  CHECK(score_math_dapo("Answer: 7\n" + std::string(291, 'x'), "7").score == -1);
}

TEST_CASE("geometry3k: nine tenths for the answer, one for the form") {
  CHECK(score_geo3k("<think>a</think> so \\boxed{5}", "5") == 1.0);
  CHECK(score_geo3k("\\boxed{5}", "5") == 0.9);
  CHECK(score_geo3k("<think>a</think> so \\boxed{6}", "5") == 0.1);
  CHECK(score_geo3k(" <think>a</think>\\boxed{5}", "5") == 0.9);
  CHECK(score_geo3k("<think>\\boxed{5}</think>", "5") == 0.9);
  CHECK(score_geo3k("5", "5") == 0);
}

TEST_CASE("geometry3k: PRM800K's grader") {
  CHECK(grade("2\\sqrt{3}", "\\sqrt{12}"));
  CHECK(grade("3.0", "3"));
  CHECK(grade("1,234", "1234"));
  CHECK(grade("1/2", "\\frac{1}{2}"));
  CHECK(grade("0.75", "3/4"));
  CHECK_FALSE(grade("6/8", "3/4"));  // fractions must be reduced alike
  CHECK_FALSE(grade("6/2", "3"));    // an integer must be one
  CHECK(grade("5 cm", "5"));
  CHECK(grade("2 1/2", "5/2+0"));
  CHECK(grade("(1, 0.5)", "(1,\\frac{1}{2})"));
  CHECK_FALSE(grade("(1,2)", "[1,2]"));
  CHECK_FALSE(grade("(1,2)", "(1,2,3)"));
  CHECK(grade("x(x+1)", "x^2+x"));
  CHECK_FALSE(grade("x(x+1)", "x^2-x"));
  CHECK(grade("\\text{yes}", "Yes"));
  CHECK_FALSE(grade("None", ""));
  CHECK_FALSE(grade("1/0", "2/0+1"));
  CHECK(grade("36\\pi", "36 \\pi"));
  CHECK(grade("30^\\circ", "30"));
  CHECK_FALSE(grade(std::string(5000, '('), "x"));  // deep, and no crash
}

TEST_CASE("searchR1: exact match of the last answer without case, articles and punctuation") {
  const std::vector<std::string> paris{"Paris", "City of Light"};
  CHECK(score_search_r1("<answer>paris</answer>", paris) == 1);
  CHECK(score_search_r1("<answer>The  CITY of\nlight.</answer>", paris) == 1);
  CHECK(score_search_r1("<answer>Paris</answer><answer>Rome</answer>", paris) == 0);
  CHECK(score_search_r1("<answer>in Paris</answer>", paris) == 0);
  CHECK(score_search_r1("<answer>Paris", paris) == 0);
  CHECK(score_search_r1("<answer>\xC3\x89"
                        "cole</answer>",
                        std::vector<std::string>{"\xC3\xA9"
                                                 "cole"}) == 1);
  std::string many;
  for (int i = 0; i < 10; ++i) many += "<answer>";
  CHECK(score_search_r1("<answer>x</answer>" + many.substr(8) + "Paris</answer>", paris) == 0);
  std::string ten;
  for (int i = 0; i < 9; ++i) ten += "<answer>x</answer>";
  CHECK(score_search_r1(ten + "<answer>Paris</answer>", paris) == 1);
  CHECK(score_search_r1(ten + "<answer>x</answer><answer>Paris</answer>", paris) == 0.25);
}
