#include "algo/response_statistics.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <numeric>
#include <random>

#include "base/error.h"

namespace verlcpp::algo {
namespace {

constexpr int64_t kDraws = 1000;
constexpr uint32_t kSeed = 42;

struct MeanStd {
  double mean = 0, std = 0;
};

MeanStd mean_std(std::span<const double> values) {
  const auto n = static_cast<double>(values.size());
  const double mean = std::accumulate(values.begin(), values.end(), 0.0) / n;
  double squares = 0;
  for (const double value : values) squares += (value - mean) * (value - mean);
  return {mean, std::sqrt(squares / n)};
}

/// Answers as numbers: equal ones have the index of the first.
std::vector<size_t> numbered(std::span<const std::string> votes) {
  std::vector<size_t> ids;
  for (const std::string& vote : votes) {
    ids.push_back(static_cast<size_t>(std::find(votes.begin(), votes.end(), vote) - votes.begin()));
  }
  return ids;
}

/// verl's calc_maj_val on the responses `drawn`.
double majority(std::span<const int32_t> drawn, std::span<const double> values,
                std::span<const size_t> ids, std::vector<int32_t>& counts) {
  std::fill(counts.begin(), counts.end(), 0);
  for (const int32_t response : drawn) ++counts[ids[static_cast<size_t>(response)]];
  const int32_t most = *std::max_element(counts.begin(), counts.end());
  const auto first = std::find_if(drawn.begin(), drawn.end(), [&](int32_t response) {
    return counts[ids[static_cast<size_t>(response)]] == most;
  });
  return values[static_cast<size_t>(*first)];
}

}  // namespace

std::vector<int32_t> numpy_choice(int64_t n, int64_t count, uint32_t seed) {
  std::vector<int32_t> chosen(static_cast<size_t>(count));
  if (n == 1) return chosen;  // numpy draws nothing
  std::mt19937 words(seed);
  const auto largest = static_cast<uint32_t>(n - 1);
  const uint32_t mask = UINT32_MAX >> std::countl_zero(largest);
  for (int32_t& number : chosen) {
    uint32_t word = words() & mask;
    while (word > largest) word = words() & mask;
    number = static_cast<int32_t>(word);
  }
  return chosen;
}

ResponseStatistics::ResponseStatistics(int64_t n) : n_(n) {
  expects(n >= 1, "statistics of at least one response");
  if (n == 1) return;
  const auto draw = [&](int64_t k) { draws_.push_back({k, numpy_choice(n, kDraws * k, kSeed)}); };
  for (int64_t k = 2; k < n; k *= 2) draw(k);
  draw(n);
}

std::vector<NamedStatistic> ResponseStatistics::of(std::span<const double> values,
                                                   std::span<const std::string> votes) const {
  expects(std::ssize(values) == n_, "one value a response");
  expects(votes.empty() || votes.size() == values.size(), "one vote a response");
  const MeanStd all = mean_std(values);
  std::vector<NamedStatistic> out{{"mean@" + std::to_string(n_), all.mean}};
  if (n_ == 1) return out;
  out.push_back({"std@" + std::to_string(n_), all.std});
  const std::vector<size_t> ids = numbered(votes);
  std::vector<int32_t> counts(values.size());
  std::vector<double> results(kDraws);
  for (const Draws& draws : draws_) {
    const auto add = [&](const char* name,
                         const std::function<double(std::span<const int32_t>)>& reduce) {
      for (int64_t i = 0; i < kDraws; ++i) {
        results[static_cast<size_t>(i)] =
            reduce(std::span(draws.responses)
                       .subspan(static_cast<size_t>(i * draws.k), static_cast<size_t>(draws.k)));
      }
      const MeanStd over = mean_std(results);
      const std::string at = std::string(name) + "@" + std::to_string(draws.k);
      out.push_back({at + "/mean", over.mean});
      out.push_back({at + "/std", over.std});
    };
    const auto value = [&](int32_t response) { return values[static_cast<size_t>(response)]; };
    const auto less = [&](int32_t a, int32_t b) { return value(a) < value(b); };
    add("best",
        [&](auto drawn) { return value(*std::max_element(drawn.begin(), drawn.end(), less)); });
    add("worst",
        [&](auto drawn) { return value(*std::min_element(drawn.begin(), drawn.end(), less)); });
    if (votes.empty()) continue;
    add("maj", [&](auto drawn) { return majority(drawn, values, ids, counts); });
  }
  return out;
}

}  // namespace verlcpp::algo
