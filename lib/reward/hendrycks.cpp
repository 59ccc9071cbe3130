#include "reward/hendrycks.h"

#include <array>
#include <utility>
#include <vector>

namespace verlcpp::reward {
namespace {

constexpr std::array<std::pair<TextView, TextView>, 9> kFirst = {{
    {U"\n", U""},
    {U"\\!", U""},
    {U"\\\\", U"\\"},
    {U"tfrac", U"frac"},
    {U"dfrac", U"frac"},
    {U"\\left", U""},
    {U"\\right", U""},
    {U"^{\\circ}", U""},
    {U"^\\circ", U""},
}};

/// What lies left of the unit; nothing when there are several.
std::optional<Text> without_units(TextView text) {
  const std::vector<Text> parts = split(text, U"\\text{ ");
  if (parts.size() > 2) return {};
  return parts[0];
}

/// \sqrt3 -> \sqrt{3}.
std::optional<Text> with_sqrt_braces(TextView text) {
  const std::vector<Text> parts = split(text, U"\\sqrt");
  Text out = parts[0];
  for (size_t i = 1; i < parts.size(); ++i) {
    const Text& part = parts[i];
    if (part.empty()) return {};
    out +=
        part[0] == U'{' ? U"\\sqrt" + part : U"\\sqrt{" + part.substr(0, 1) + U"}" + part.substr(1);
  }
  return out;
}

/// \frac12 -> \frac{1}{2}, \frac1{72} -> \frac{1}{72}. A \frac with one character behind it leaves
/// the whole answer as it was.
std::optional<Text> with_frac_braces(TextView text) {
  const std::vector<Text> parts = split(text, U"\\frac");
  Text out = parts[0];
  for (size_t i = 1; i < parts.size(); ++i) {
    const Text& part = parts[i];
    if (part.empty()) return {};
    out += U"\\frac";
    if (part[0] == U'{') {
      out += part;
      continue;
    }
    if (part.size() < 2) return Text(text);
    const Text numerator = U"{" + part.substr(0, 1) + U"}";
    out += numerator +
           (part[1] == U'{' ? part.substr(1) : U"{" + part.substr(1, 1) + U"}" + part.substr(2));
  }
  return out;
}

/// An integer as Python prints it: no sign but a minus, no leading zero, no minus zero.
bool is_plain_integer(TextView text) {
  const bool negative = text.starts_with(U'-');
  if (negative) text.remove_prefix(1);
  if (text.empty() || (text[0] == U'0' && (negative || text.size() > 1))) return false;
  return text.find_first_not_of(U"0123456789") == TextView::npos;
}

/// 1/2 -> \frac{1}{2}.
Text with_slash_as_frac(const Text& text) {
  const std::vector<Text> parts = split(text, U"/");
  if (parts.size() != 2 || !is_plain_integer(parts[0]) || !is_plain_integer(parts[1])) return text;
  return U"\\frac{" + parts[0] + U"}{" + parts[1] + U"}";
}

}  // namespace

std::optional<Text> normalize_math(TextView answer, PercentSigns percent) {
  Text text(answer);
  for (const auto& [before, after] : kFirst) text = replaced(text, before, after);
  text = replaced(text, U"\\$", U"");
  std::optional<Text> step = without_units(text);
  if (!step) return {};
  text = replaced(*step, U"\\%", U"");
  if (percent == PercentSigns::kAll) text = replaced(text, U"%", U"");
  text = replaced(text, U" .", U" 0.");
  text = replaced(text, U"{.", U"{0.");
  if (text.empty()) return text;
  if (text[0] == U'.') text = U"0" + text;
  const std::vector<Text> sides = split(text, U"=");
  if (sides.size() == 2 && sides[0].size() <= 2) text = sides[1];
  step = with_sqrt_braces(text);
  if (!step) return {};
  step = with_frac_braces(replaced(*step, U" ", U""));
  if (!step) return {};
  if (*step == U"0.5") return U"\\frac{1}{2}";
  return with_slash_as_frac(*step);
}

}  // namespace verlcpp::reward
