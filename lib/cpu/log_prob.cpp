#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "cpu/kernels.h"

namespace verlcpp::cpu {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

/// verl's floor, so that temperature 0 means (nearly) greedy instead of a division by zero.
template <class T>
T safe_temperature(T temperature) {
  return temperature > static_cast<T>(1e-8) ? temperature : static_cast<T>(1e-8);
}

/// What a part of the vocabulary says of one row; the four numbers of stats_R4.
struct Stats {
  double max, sum, weighted, label;
};

/// The statistics of two parts together; sums are relative to the new maximum.
Stats merged(const Stats& a, const Stats& b) {
  Stats both{std::max(a.max, b.max), 0, 0, std::max(a.label, b.label)};
  for (const Stats& s : {a, b}) {
    if (s.max == -kInf) continue;
    const double shift = s.max - both.max, scale = std::exp(shift);
    both.sum += scale * s.sum;
    both.weighted += scale * (s.weighted + s.sum * shift);
  }
  return both;
}

}  // namespace

template <class T>
void logit_stats(int64_t rows, int64_t vocab, int64_t first, double* stats, const T* logits,
                 const int32_t* labels, const T* temperature) {
  for (int64_t r = 0; r < rows; ++r, logits += vocab, stats += 4) {
    const T tau = safe_temperature(temperature[r]);
    const T max = *std::max_element(logits, logits + vocab) / tau;
    double sum = 0, weighted = 0;
    for (int64_t v = 0; v < vocab && max != -kInf; ++v) {
      const T shifted = logits[v] / tau - max, e = std::exp(shifted);
      sum += e;
      if (e != T{0}) weighted += static_cast<double>(e) * shifted;  // 0 * -inf counts as 0
    }
    const int64_t label = labels[r] - first;
    stats[0] = max;
    stats[1] = sum;
    stats[2] = weighted;
    stats[3] = label >= 0 && label < vocab ? static_cast<double>(logits[label] / tau) : -kInf;
  }
}

template <class T>
void keep_logits(int64_t rows, int64_t vocab, T* values, T* shift, const T* logits,
                 const T* temperature) {
  for (int64_t r = 0; r < rows; ++r) {
    const T scale = T{1} / (safe_temperature(temperature[r]) * std::numbers::ln2_v<T>);
    for (int64_t first = 0; first < vocab; first += kKeptGroup, ++shift) {
      const int64_t end = std::min(first + kKeptGroup, vocab);
      *shift = *std::max_element(logits + first, logits + end) * scale;
      for (int64_t v = first; v < end; ++v) values[v] = logits[v] * scale - *shift;
    }
    logits += vocab;
    values += vocab;
  }
}

template <class T>
void kept_to_logits(int64_t rows, int64_t vocab, T* logits, const T* values, const T* shift,
                    const T* temperature) {
  for (int64_t r = 0; r < rows; ++r) {
    const T scale = safe_temperature(temperature[r]) * std::numbers::ln2_v<T>;
    for (int64_t v = 0; v < vocab; ++v) logits[v] = (values[v] + shift[v / kKeptGroup]) * scale;
    logits += vocab;
    values += vocab;
    shift += kept_groups(vocab);
  }
}

template <class T>
void token_log_prob(int64_t rows, int64_t parts, T* log_prob, T* entropy, T* lse,
                    const double* stats) {
  for (int64_t r = 0; r < rows; ++r) {
    Stats all{-kInf, 0, 0, -kInf};
    for (int64_t p = 0; p < parts; ++p) {
      const double* s = stats + (p * rows + r) * 4;
      all = merged(all, {s[0], s[1], s[2], s[3]});
    }
    const double log_sum = std::log(all.sum);
    lse[r] = static_cast<T>(all.max + log_sum);
    log_prob[r] = static_cast<T>((all.label - all.max) - log_sum);
    entropy[r] = static_cast<T>(log_sum - all.weighted / all.sum);
  }
}

template <class T>
void token_log_prob_backward(int64_t rows, int64_t vocab, int64_t first, T* d_logits,
                             const T* logits, const int32_t* labels, const T* temperature,
                             const T* entropy, const T* lse, const T* d_log_prob,
                             const T* d_entropy) {
  for (int64_t r = 0; r < rows; ++r, logits += vocab, d_logits += vocab) {
    const T tau = safe_temperature(temperature[r]), inverse = T{1} / tau;
    const T d_lp = d_log_prob[r] * inverse, d_ent = d_entropy[r] * inverse;
    for (int64_t v = 0; v < vocab; ++v) {
      const T log_p = logits[v] / tau - lse[r], p = std::exp(log_p);
      d_logits[v] = p == T{0} ? T{0} : -p * (d_lp + d_ent * (log_p + entropy[r]));
    }
    const int64_t label = labels[r] - first;
    if (label >= 0 && label < vocab) d_logits[label] += d_lp;
  }
}

template void logit_stats(int64_t, int64_t, int64_t, double*, const float*, const int32_t*,
                          const float*);
template void logit_stats(int64_t, int64_t, int64_t, double*, const double*, const int32_t*,
                          const double*);
template void keep_logits(int64_t, int64_t, float*, float*, const float*, const float*);
template void keep_logits(int64_t, int64_t, double*, double*, const double*, const double*);
template void kept_to_logits(int64_t, int64_t, float*, const float*, const float*, const float*);
template void kept_to_logits(int64_t, int64_t, double*, const double*, const double*,
                             const double*);
template void token_log_prob(int64_t, int64_t, float*, float*, float*, const double*);
template void token_log_prob(int64_t, int64_t, double*, double*, double*, const double*);
template void token_log_prob_backward(int64_t, int64_t, int64_t, float*, const float*,
                                      const int32_t*, const float*, const float*, const float*,
                                      const float*, const float*);
template void token_log_prob_backward(int64_t, int64_t, int64_t, double*, const double*,
                                      const int32_t*, const double*, const double*, const double*,
                                      const double*, const double*);

}  // namespace verlcpp::cpu
