#include "reward/math.h"

#include "reward/boxed.h"
#include "reward/hendrycks.h"

namespace verlcpp::reward {
namespace {

/// verl: last_boxed_only_string, then remove_boxed.
std::optional<Text> last_answer(TextView response) {
  constexpr TextView kSpaced = U"\\boxed ";
  if (contains(response, kSpaced)) return split(split(response, kSpaced).back(), U"$").front();
  size_t at = response.rfind(U"\\boxed");
  if (at == TextView::npos) at = response.rfind(U"\\fbox");
  if (at == TextView::npos) return {};
  const std::optional<Text> boxed = closed_braces(response, at);
  return boxed ? boxed_content(*boxed) : std::nullopt;
}

bool same_answer(TextView a, TextView b) {
  const std::optional<Text> normal_a = normalize_math(a);
  const std::optional<Text> normal_b = normal_a ? normalize_math(b) : std::nullopt;
  return normal_b ? *normal_a == *normal_b : a == b;
}

}  // namespace

double score_math(std::string_view response, std::string_view ground_truth) {
  const std::optional<Text> answer = last_answer(to_text(response));
  return answer && same_answer(*answer, to_text(ground_truth)) ? 1.0 : 0.0;
}

}  // namespace verlcpp::reward
