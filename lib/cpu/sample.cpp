#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "base/error.h"
#include "cpu/kernels.h"

namespace verlcpp::cpu {
namespace {

/// z[v] = logit[v] / temperature of one row, in double.
struct Row {
  std::vector<double> z;
  double max = 0, lse = 0;
};

template <class T>
Row scaled_row(int64_t vocab, const T* logits, double temperature) {
  Row row;
  row.z.assign(logits, logits + vocab);
  for (double& z : row.z) z /= temperature;
  row.max = *std::max_element(row.z.begin(), row.z.end());
  double sum = 0;
  for (double z : row.z) sum += std::exp(z - row.max);
  row.lse = row.max + std::log(sum);
  return row;
}

/// Tokens that top-k, then top-p leave, rising. Ties go to the lower token. Top-p keeps the
/// shortest prefix (at least one) of the tokens in falling probability whose probability, within
/// what top-k left, reaches p.
std::vector<int32_t> candidates(const Row& row, const SamplingOptions& options) {
  const int64_t vocab = static_cast<int64_t>(row.z.size());
  const bool by_k = options.top_k > 0 && options.top_k < vocab;
  const bool by_p = options.top_p < 1.0;
  std::vector<int32_t> tokens(row.z.size());
  std::iota(tokens.begin(), tokens.end(), 0);
  if (!by_k && !by_p) return tokens;

  const auto better = [&](int32_t a, int32_t b) {
    const double za = row.z[static_cast<size_t>(a)], zb = row.z[static_cast<size_t>(b)];
    return za != zb ? za > zb : a < b;
  };
  const int64_t kept = by_k ? options.top_k : vocab;
  std::partial_sort(tokens.begin(), tokens.begin() + kept, tokens.end(), better);
  tokens.resize(static_cast<size_t>(kept));
  if (by_p) {
    const auto weight = [&](int32_t v) {
      return std::exp(row.z[static_cast<size_t>(v)] - row.max);
    };
    double total = 0, reached = 0;
    for (int32_t v : tokens) total += weight(v);
    size_t count = 0;
    do {
      reached += weight(tokens[count++]);
    } while (count < tokens.size() && reached < options.top_p * total);
    tokens.resize(count);
  }
  std::sort(tokens.begin(), tokens.end());
  return tokens;
}

/// argmax of z + Gumbel noise over `tokens` (Gumbel-max: a draw from their softmax).
int32_t gumbel_argmax(const Row& row, const std::vector<int32_t>& tokens, PhiloxKey row_key) {
  int32_t best = tokens.front();
  double best_score = -HUGE_VAL;
  uint32_t block = 0;
  PhiloxCounter words = philox4x32({block, 0, 0, 0}, row_key);
  for (int32_t v : tokens) {
    const uint32_t token = static_cast<uint32_t>(v);
    if (token / 4 != block) {
      block = token / 4;
      words = philox4x32({block, 0, 0, 0}, row_key);
    }
    const double u = uniform_open(words[token % 4]);
    const double score = row.z[token] - std::log(-std::log(u));
    if (score > best_score) {
      best_score = score;
      best = v;
    }
  }
  return best;
}

PhiloxKey row_key(const int32_t* counter, PhiloxKey key) {
  PhiloxCounter words{};
  for (size_t i = 0; i < words.size(); ++i) words[i] = static_cast<uint32_t>(counter[i]);
  words = philox4x32(words, key);
  return {words[0], words[1]};
}

}  // namespace

template <class T>
void sample(int64_t rows, int64_t vocab, int32_t* ids, T* log_prob, const T* logits,
            const int32_t* counters, const SamplingOptions& options) {
  expects(rows == 0 || vocab > 0, "sampling from an empty vocabulary");
  const bool greedy = options.temperature <= 0;
  for (int64_t b = 0; b < rows; ++b, logits += vocab, counters += 4) {
    const Row row = scaled_row(vocab, logits, greedy ? 1.0 : options.temperature);
    ids[b] =
        greedy ? static_cast<int32_t>(std::max_element(row.z.begin(), row.z.end()) - row.z.begin())
               : gumbel_argmax(row, candidates(row, options), row_key(counters, options.key));
    log_prob[b] = static_cast<T>(row.z[static_cast<size_t>(ids[b])] - row.lse);
  }
}

template void sample(int64_t, int64_t, int32_t*, float*, const float*, const int32_t*,
                     const SamplingOptions&);
template void sample(int64_t, int64_t, int32_t*, double*, const double*, const int32_t*,
                     const SamplingOptions&);

}  // namespace verlcpp::cpu
