#include "reward/gsm8k.h"

#include <algorithm>
#include <optional>
#include <string>

#include "reward/text.h"

namespace verlcpp::reward {
namespace {

constexpr size_t kSearched = 300;

bool is_number_character(char32_t c) { return (c >= U'0' && c <= U'9') || c == U'.' || c == U','; }

/// The number at the start of `text`, minus included; empty when there is none.
TextView leading_number(TextView text) {
  const size_t first = text.starts_with(U'-') ? 1 : 0;
  size_t end = first;
  while (end < text.size() && is_number_character(text[end])) ++end;
  return end == first ? TextView() : text.substr(0, end);
}

std::optional<Text> strict_answer(TextView tail) {
  constexpr TextView kMark = U"#### ";
  for (size_t at = tail.rfind(kMark); at != TextView::npos;
       at = at == 0 ? TextView::npos : tail.rfind(kMark, at - 1)) {
    const TextView number = leading_number(tail.substr(at + kMark.size()));
    if (!number.empty()) return replaced(number, U",", U"");
  }
  return {};
}

/// When all numbers are ".", verl's loop ends on the first of them.
std::optional<Text> flexible_answer(TextView tail) {
  std::optional<Text> answer;
  for (size_t at = 0; at < tail.size();) {
    const TextView number = leading_number(tail.substr(at));
    if (!number.empty() && (number != U"." || !answer)) answer = Text(number);
    at += std::max<size_t>(number.size(), 1);
  }
  return answer;
}

}  // namespace

double score_gsm8k(std::string_view response, std::string_view ground_truth, Gsm8kMethod method) {
  const Text text = to_text(response);
  const TextView tail = last_characters(text, kSearched);
  const std::optional<Text> answer =
      method == Gsm8kMethod::kStrict ? strict_answer(tail) : flexible_answer(tail);
  return answer && to_utf8(*answer) == ground_truth ? 1.0 : 0.0;
}

}  // namespace verlcpp::reward
