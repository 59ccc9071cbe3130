#include "reward/math_dapo.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "reward/boxed.h"

namespace verlcpp::reward {
namespace {

constexpr size_t kSearched = 300, kSearchedForBox = 100;
constexpr TextView kNoAnswer = U"[INVALID]";

/// In this order. The articles go wherever these letters stand: "mean 5" becomes "me5".
constexpr std::array<std::pair<TextView, TextView>, 10> kReplaced = {{
    {U"an ", U""},
    {U"a ", U""},
    {U".$", U"$"},
    {U"\\$", U""},
    {U"\\ ", U""},
    {U" ", U""},
    {U"mbox", U"text"},
    {U",\\text{and}", U","},
    {U"\\text{and}", U","},
    {U"\\text{m}", U"\\text{}"},
}};
constexpr std::array<TextView, 38> kRemoved = {
    U"square",     U"ways",       U"integers",  U"dollars",      U"mph",
    U"inches",     U"hours",      U"km",        U"units",        U"\\ldots",
    U"sue",        U"points",     U"feet",      U"minutes",      U"digits",
    U"cents",      U"degrees",    U"cm",        U"gm",           U"pounds",
    U"meters",     U"meals",      U"edges",     U"students",     U"childrentickets",
    U"multiples",  U"\\text{s}",  U"\\text{.}", U"\\text{\ns}",  U"\\text{}^2",
    U"\\text{}^3", U"\\text{\n}", U"\\text{}",  U"\\mathrm{th}", U"^\\circ",
    U"^{\\circ}",  U"\\;",        U",\\!"};
constexpr std::array<TextView, 3> kRemovedLast = {U"{,}", U"\"", U"\\dots"};

/// The end of the line that `at` lies in.
size_t line_end(TextView text, size_t at) { return std::min(text.find(U'\n', at), text.size()); }

/// On every line with two dollar signs, what lies between the first two, with them.
Text only_first_formula(TextView text) {
  Text out;
  for (size_t at = 0; at <= text.size();) {
    const size_t end = line_end(text, at);
    const TextView line = text.substr(at, end - at);
    const size_t first = line.find(U'$');
    const size_t second = first == TextView::npos ? first : line.find(U'$', first + 1);
    out += second == TextView::npos ? line : line.substr(first, second - first + 1);
    if (end < text.size()) out += U'\n';
    at = end + 1;
  }
  return out;
}

/// COMMAND{content} -> content; the closing brace is the next on the line, or with `greedy` the
/// last.
Text without_wrapper(TextView text, TextView command, bool greedy = false) {
  Text out;
  size_t from = 0;
  for (size_t at = text.find(command); at != TextView::npos; at = text.find(command, from)) {
    const size_t begin = at + command.size();
    const TextView rest = text.substr(begin, line_end(text, begin) - begin);
    const size_t length = greedy ? rest.rfind(U'}') : rest.find(U'}');
    out += text.substr(from, at - from);
    if (length == TextView::npos) {
      out += command.substr(0, 1);
      from = at + 1;
      continue;
    }
    out += rest.substr(0, length);
    from = begin + length + 1;
  }
  return out += text.substr(from);
}

/// frac12 -> frac{1}{2}, sqrt3 -> sqrt{3}: `arguments` characters behind the name, of which the
/// first is no brace and the second no line break.
Text with_braces(TextView text, TextView name, size_t arguments) {
  Text out;
  size_t from = 0;
  for (size_t at = text.find(name); at != TextView::npos; at = text.find(name, from)) {
    const TextView behind = text.substr(at + name.size());
    const bool fits =
        behind.size() >= arguments && behind[0] != U'{' && (arguments < 2 || behind[1] != U'\n');
    out += text.substr(from, at - from);
    out += name;
    from = at + name.size();
    if (!fits) continue;
    for (size_t i = 0; i < arguments; ++i) out += U"{" + Text(1, behind[i]) + U"}";
    from += arguments;
  }
  return out += text.substr(from);
}

/// verl: normalize_final_answer.
Text normalized(TextView answer) {
  Text text = split(answer, U"=").back();
  for (const auto& [before, after] : kReplaced) text = replaced(text, before, after);
  for (const TextView removed : kRemoved) text = replaced(text, removed, U"");
  for (const TextView removed : kRemovedLast) text = replaced(text, removed, U"");
  text = only_first_formula(text);
  text = without_wrapper(text, U"\\text{");
  text = without_wrapper(text, U"\\textbf{");
  text = without_wrapper(text, U"\\overline{");
  text = without_wrapper(text, U"\\boxed{", true);
  text = with_braces(text, U"frac", 2);
  text = with_braces(text, U"sqrt", 1);
  text = replaced(text, U"$", U"");
  const Text number = replaced(text, U",", U"");
  if (!number.empty() && std::all_of(number.begin(), number.end(), is_digit)) text = number;
  return strip(text);
}

/// Case aside, and with the long s that Python's (?i) takes for an s.
bool is_answer_word(TextView text) {
  constexpr TextView kWord = U"answer";
  if (text.size() < kWord.size()) return false;
  for (size_t i = 0; i < kWord.size(); ++i) {
    const char32_t c = text[i] == 0x17F ? U's' : text[i];
    if (c != kWord[i] && c + 32 != kWord[i]) return false;
  }
  return true;
}

size_t skip_spaces(TextView text, size_t at) {
  while (at < text.size() && is_space(text[at])) ++at;
  return at;
}

/// The last match of (?i)Answer\s*:\s*([^\n]+). Where nothing but white space follows the colon,
/// the last of it that is no line break is the answer.
std::optional<Text> answer_line(TextView text) {
  std::optional<Text> found;
  for (size_t at = 0; at < text.size();) {
    size_t colon = at;
    if (is_answer_word(text.substr(at))) colon = skip_spaces(text, at + 6);
    if (colon == at || colon == text.size() || text[colon] != U':') {
      ++at;
      continue;
    }
    size_t begin = skip_spaces(text, colon + 1);
    const auto fits = [&] { return begin < text.size() && text[begin] != U'\n'; };
    while (!fits() && begin > colon + 1) --begin;
    if (!fits()) {
      ++at;
      continue;
    }
    const size_t end = line_end(text, begin);
    found = Text(text.substr(begin, end - begin));
    at = end;
  }
  return found;
}

}  // namespace

DapoScore score_math_dapo(std::string_view response, std::string_view ground_truth) {
  const Text whole = to_text(response);
  const TextView tail = last_characters(whole, kSearched);
  const Text truth = to_text(ground_truth);
  const Text pred = normalized(answer_line(tail).value_or(Text(kNoAnswer)));
  const auto outcome = [](bool right, TextView answer) {
    return DapoScore{.score = right ? 1.0 : -1.0, .acc = right, .pred = to_utf8(answer)};
  };
  if (pred == kNoAnswer) {
    const TextView end = last_characters(tail, kSearchedForBox);
    const size_t at = end.rfind(U"\\boxed{");
    const std::optional<Text> boxed = at == TextView::npos ? std::nullopt : closed_braces(end, at);
    if (boxed) {
      const Text content = boxed_content(*boxed).value();
      return outcome(content == truth, content);
    }
  }
  return outcome(pred == normalized(truth), pred);
}

}  // namespace verlcpp::reward
