#include "reward/cycle.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <optional>
#include <string>

#include "base/error.h"

namespace verlcpp::reward {
namespace {

struct CycleTruth {
  char letter = 'a';
  int64_t low = 1, high = 1;
};

constexpr std::string_view kCycle = "abcd";

std::optional<int64_t> integer(std::string_view text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<CycleTruth> parse_cycle(std::string_view text) {
  if (text.size() < 5 || text[1] != ' ' || kCycle.find(text[0]) == std::string_view::npos)
    return std::nullopt;
  const size_t space = text.find(' ', 2);
  if (space == std::string_view::npos) return std::nullopt;
  const auto low = integer(text.substr(2, space - 2));
  const auto high = integer(text.substr(space + 1));
  if (!low || !high || *low < 1 || *high < *low) return std::nullopt;
  return CycleTruth{text[0], *low, *high};
}

}  // namespace

bool is_cycle_truth(std::string_view ground_truth) { return parse_cycle(ground_truth).has_value(); }

double score_cycle(std::string_view response, std::string_view ground_truth) {
  const auto truth = parse_cycle(ground_truth);
  if (!truth) throw DataError("verlcpp/cycle: not a ground truth: " + std::string(ground_truth));
  const auto length = static_cast<int64_t>(response.size());
  char before = truth->letter;
  int64_t right = 0;
  for (const char c : response.substr(0, static_cast<size_t>(truth->high))) {
    const size_t at = kCycle.find(before);
    if (at != std::string_view::npos && c == kCycle[(at + 1) % kCycle.size()]) ++right;
    before = c;
  }
  return static_cast<double>(right) / static_cast<double>(std::max(length, truth->low));
}

}  // namespace verlcpp::reward
