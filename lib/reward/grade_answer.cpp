#include "reward/grade_answer.h"

#include <algorithm>
#include <array>
#include <set>
#include <vector>

#include "reward/expression.h"
#include "reward/hendrycks.h"
#include "reward/latex_text.h"
#include "reward/python_number.h"

namespace verlcpp::reward {
namespace {

bool is_ascii_digit(char32_t c) { return c >= U'0' && c <= U'9'; }

/// The text inside of a whole \text{...}, else the text itself.
Text without_text(TextView text) {
  constexpr TextView kLeft = U"\\text{";
  TextView line = text.ends_with(U'\n') ? text.substr(0, text.size() - 1) : text;
  const bool whole = line.starts_with(kLeft) && line.ends_with(U'}') &&
                     line.size() > kLeft.size() + 1 && !contains(line, U"\n");
  return Text(whole ? line.substr(kLeft.size(), line.size() - kLeft.size() - 1) : text);
}

Text hendrycks(TextView answer) {
  const Text text = strip(answer);
  const Text inside = without_text(text);
  const Text trimmed = inside == text ? text : strip(inside);
  return normalize_math(trimmed, PercentSigns::kAll).value_or(trimmed);
}

/// UNIT, its plural and its power: unit(es)?(s)? *(\^[0-9]+)?
Text without_unit(TextView text, TextView unit) {
  Text out;
  size_t from = 0;
  for (size_t at = text.find(unit); at != TextView::npos; at = text.find(unit, from)) {
    out += text.substr(from, at - from);
    from = at + unit.size();
    if (text.substr(from).starts_with(U"es")) from += 2;
    if (text.substr(from).starts_with(U's')) ++from;
    while (from < text.size() && text[from] == U' ') ++from;
    size_t power = from + 1;
    while (power < text.size() && is_ascii_digit(text[power])) ++power;
    if (from < text.size() && text[from] == U'^' && power > from + 1) from = power;
  }
  return out += text.substr(from);
}

/// `head`, any spaces and `tail`: out of the text, or `put` in their place.
Text without_spaced(TextView text, TextView head, TextView tail, TextView put = U"") {
  Text out;
  size_t from = 0;
  for (size_t at = text.find(head); at != TextView::npos; at = text.find(head, at + 1)) {
    size_t end = at + head.size();
    while (end < text.size() && text[end] == U' ') ++end;
    if (at < from || !text.substr(end).starts_with(tail)) continue;
    out += text.substr(from, at - from);
    out += put;
    from = end + tail.size();
  }
  return out += text.substr(from);
}

/// 7 3/4 -> 7+3/4.
Text with_mixed_numbers(TextView text) {
  Text out;
  for (size_t at = 0; at < text.size();) {
    size_t end = at + 1;
    while (end < text.size() && text[end] == U' ') ++end;
    out += text[at];
    const bool mixed =
        is_ascii_digit(text[at]) && end > at + 1 && end < text.size() && is_ascii_digit(text[end]);
    if (mixed) {
      out += U'+';
      out += text[end];
    }
    at = mixed ? end + 1 : at + 1;
  }
  return out;
}

/// 1,234 -> 1234: a comma between a digit and exactly three.
Text without_thousands_commas(Text text) {
  const auto digit = [&](size_t i) { return i < text.size() && is_digit(text[i]); };
  for (size_t at = text.find(U','); at != Text::npos; at = text.find(U',', at)) {
    const bool thousands = at > 0 && digit(at - 1) && digit(at + 1) && digit(at + 2) &&
                           digit(at + 3) && !digit(at + 4);
    if (thousands) {
      text.erase(at, 1);
      at = 0;  // one that is gone may make another one fit
    } else {
      ++at;
    }
  }
  return text;
}

bool is_integer_text(const Text& text) {
  const auto value = python_float(without_thousands_commas(text));
  return value && is_near_integer(*value);
}

constexpr std::array<TextView, 16> kUnits = {
    U"degree", U"cm",   U"centimeter", U"meter", U"mile", U"second", U"minute", U"hour",
    U"day",    U"week", U"month",      U"year",  U"foot", U"feet",   U"inch",   U"yard"};
constexpr std::array<std::pair<TextView, TextView>, 9> kReplaced = {{
    {U"\\%", U"%"},
    {U"\\$", U"$"},
    {U"$", U""},
    {U"%", U""},
    {U" or ", U" , "},
    {U" and ", U" , "},
    {U"million", U"*10^6"},
    {U"billion", U"*10^9"},
    {U"trillion", U"*10^12"},
}};

/// PRM800K's _normalize.
Text normalized(TextView answer) {
  Text text = without_text(answer);
  for (const auto& [before, after] : kReplaced) text = replaced(text, before, after);
  for (const TextView unit : kUnits) text = without_unit(text, unit);
  text = without_spaced(text, U"^", U"\\circ");
  if (text.starts_with(U'{') && text.ends_with(U'}') && text.size() > 1) {
    text = text.substr(1, text.size() - 2);
  }
  text = without_spaced(text, U",\\!", U"");
  if (const auto value = python_float(text); value && is_near_integer(*value)) {
    text = integer_text(*value, Rounding::kNearest);
  }
  if (contains(text, U"\\")) text = latex_as_expression(text).value_or(text);
  text = without_spaced(text, U"-", U"", U"-");
  text = replaced(with_mixed_numbers(text), U" ", U"");
  text = lower(replaced(replaced(text, U"{", U""), U"}", U""));
  if (!is_integer_text(text)) return text;
  const auto value = python_float(replaced(text, U",", U""));
  return value ? integer_text(*value, Rounding::kToZero) : text;
}

/// ^-?[0-9]+.?/0*[1-9][0-9]*.?$
bool is_fraction(TextView text) {
  if (text.starts_with(U'-')) text.remove_prefix(1);
  const auto digits = [&](size_t at) {
    while (at < text.size() && is_ascii_digit(text[at])) ++at;
    return at;
  };
  size_t slash = digits(0);
  if (slash == 0) return false;
  if (slash < text.size() && text[slash] != U'/') ++slash;
  if (slash >= text.size() || text[slash] != U'/') return false;
  const size_t end = digits(slash + 1);
  const TextView denominator = text.substr(slash + 1, end - slash - 1);
  const bool positive = denominator.find_first_not_of(U'0') != TextView::npos;
  return positive && text.size() <= end + 1;
}

std::vector<Text> tuple_parts(const Text& answer) {
  constexpr TextView kBrackets = U"()[]";
  const Text text = without_thousands_commas(answer);
  const auto bracket = [&](char32_t c) { return kBrackets.find(c) != TextView::npos; };
  if (text.size() <= 2 || !bracket(text.front()) || !bracket(text.back())) return {text};
  const Text inside = text.substr(1, text.size() - 2);
  if (std::any_of(inside.begin(), inside.end(), bracket)) return {text};
  std::vector<Text> parts = split(inside, U",");
  for (Text& part : parts) part = strip(part);
  return parts;
}

/// What the original refuses to give to SymPy, which may hang: more than two letters, and powers
/// of more than one digit.
bool may_evaluate(const Text& text) {
  const Text rest = replaced(replaced(text, U"sqrt", U""), U"frac", U"");
  std::set<char32_t> letters;
  for (const char32_t c : rest) {
    if (is_letter(c)) letters.insert(c);
  }
  if (letters.size() > 2 || contains(text, U"^{") || contains(text, U"^(")) return false;
  for (size_t at = text.find(U'^'); at != Text::npos; at = text.find(U'^', at + 1)) {
    size_t digits = at + 1;
    while (digits < text.size() && is_ascii_digit(text[digits])) ++digits;
    if (digits - at > 2) return false;
    if (digits - at == 2 && digits < text.size() && text[digits] == U'^') return false;
  }
  return true;
}

bool same_part(const Text& truth, const Text& given) {
  if (is_fraction(truth) && is_fraction(given)) return truth == given;
  if (is_integer_text(truth) != is_integer_text(given)) return false;
  return may_evaluate(U"(" + truth + U")-(" + given + U")") && same_value(truth, given);
}

}  // namespace

bool grade_answer(TextView given, TextView ground_truth) {
  if (hendrycks(ground_truth) == hendrycks(given)) return true;
  const Text truth = normalized(ground_truth), answer = normalized(given);
  if (truth == answer) return true;
  if (answer.empty() || truth.empty()) return false;
  const std::vector<Text> truths = tuple_parts(truth), answers = tuple_parts(answer);
  if (truths.size() != answers.size()) return false;
  if (truths.size() > 1 && (truth.front() != answer.front() || truth.back() != answer.back())) {
    return false;
  }
  return std::equal(truths.begin(), truths.end(), answers.begin(), same_part);
}

}  // namespace verlcpp::reward
