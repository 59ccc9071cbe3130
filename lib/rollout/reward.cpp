#include "rollout/reward.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>

#include "base/error.h"

namespace verlcpp::rollout {
namespace {

struct Scorer {
  std::string_view data_source;
  double (*score)(std::string_view response, std::string_view ground_truth);
  std::string_view ground_truth;  // what is valid
  bool (*accepts)(std::string_view ground_truth);
};

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

constexpr std::array<Scorer, 2> kScorers{{
    {"openai/gsm8k", score_gsm8k, "any text", [](std::string_view) { return true; }},
    {"verlcpp/cycle", score_cycle, "LETTER LOW HIGH, such as \"b 8 32\" (a to d, 1 <= LOW <= HIGH)",
     [](std::string_view truth) { return parse_cycle(truth).has_value(); }},
}};

const Scorer* find_scorer(std::string_view data_source) {
  for (const Scorer& scorer : kScorers) {
    if (scorer.data_source == data_source) return &scorer;
  }
  return nullptr;
}

std::string not_implemented(const std::string& data_source) {
  return "Reward function is not implemented for data_source='" + data_source + "'";
}

std::string implemented() {
  std::string names;
  for (const Scorer& scorer : kScorers) {
    names += (names.empty() ? "" : ", ") + std::string(scorer.data_source);
  }
  return names;
}

/// The last `count` characters (UTF-8 code points) of `text`.
std::string_view last_characters(std::string_view text, int count) {
  size_t start = text.size();
  while (start > 0 && count > 0) {
    --start;
    if ((static_cast<unsigned char>(text[start]) & 0xC0) != 0x80) --count;
  }
  return text.substr(start);
}

bool is_number_character(char c) { return (c >= '0' && c <= '9') || c == '.' || c == ','; }

/// The number at the start of `text`, minus included; empty when there is none.
std::string_view leading_number(std::string_view text) {
  const size_t first = text.starts_with('-') ? 1 : 0;
  size_t end = first;
  while (end < text.size() && is_number_character(text[end])) ++end;
  return end == first ? std::string_view() : text.substr(0, end);
}

}  // namespace

double score_gsm8k(std::string_view response, std::string_view ground_truth) {
  constexpr std::string_view kMark = "#### ";
  constexpr int kSearched = 300;
  const std::string_view tail = last_characters(response, kSearched);
  for (size_t at = tail.rfind(kMark); at != std::string_view::npos;
       at = at == 0 ? std::string_view::npos : tail.rfind(kMark, at - 1)) {
    std::string answer(leading_number(tail.substr(at + kMark.size())));
    if (answer.empty()) continue;
    std::erase(answer, ',');
    return answer == ground_truth ? 1.0 : 0.0;
  }
  return 0.0;
}

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

double compute_score(const std::string& data_source, const std::string& response_text,
                     const std::string& ground_truth) {
  const Scorer* scorer = find_scorer(data_source);
  if (scorer == nullptr) {
    throw DataError(not_implemented(data_source) + "; implemented: " + implemented());
  }
  return scorer->score(response_text, ground_truth);
}

std::string why_not_scored(const data::PromptRow& row, bool has_ground_truth) {
  const Scorer* scorer = find_scorer(row.data_source);
  if (scorer == nullptr)
    return not_implemented(row.data_source) + "; implemented: " + implemented();
  if (!has_ground_truth || scorer->accepts(row.ground_truth)) return "";
  return row.data_source + ": reward_model.ground_truth is \"" + row.ground_truth +
         "\"; valid: " + std::string(scorer->ground_truth);
}

}  // namespace verlcpp::rollout
