#include "reward/geo3k.h"

#include "reward/grade_answer.h"

namespace verlcpp::reward {
namespace {

/// The trimmed content of the last \boxed{...}; "None", as in mathruler, for none that closes.
Text boxed_answer(TextView response) {
  constexpr TextView kBoxed = U"\\boxed{";
  const size_t at = response.rfind(kBoxed);
  if (at == TextView::npos) return U"None";
  const TextView rest = response.substr(at + kBoxed.size());
  int64_t depth = 0;
  for (size_t i = 0; i < rest.size(); ++i) {
    if (rest[i] == U'{') ++depth;
    if (rest[i] == U'}' && --depth < 0) return strip(rest.substr(0, i));
  }
  return U"None";
}

bool has_format(TextView response) {
  if (!response.starts_with(U"<think>")) return false;
  size_t at = 0;
  for (const TextView part : {U"<think>", U"</think>", U"\\boxed{", U"}"}) {
    at = response.find(part, at);
    if (at == TextView::npos) return false;
    at += part.size();
  }
  return true;
}

}  // namespace

double score_geo3k(std::string_view response, std::string_view ground_truth) {
  constexpr double kFormat = 0.1;
  const Text text = to_text(response);
  const double accuracy = grade_answer(boxed_answer(text), to_text(ground_truth)) ? 1 : 0;
  return (1 - kFormat) * accuracy + kFormat * (has_format(text) ? 1 : 0);
}

}  // namespace verlcpp::reward
