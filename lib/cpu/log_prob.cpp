#include <algorithm>
#include <cmath>
#include <string>

#include "base/error.h"
#include "cpu/kernels.h"

namespace verlcpp::cpu {
namespace {

/// verl's floor, so that temperature 0 means (nearly) greedy instead of a division by zero.
template <class T>
T safe_temperature(T temperature) {
  return temperature > T{0} ? temperature : static_cast<T>(1e-8);
}

void check_label(int32_t label, int64_t vocab) {
  if (label >= 0 && label < vocab) return;
  expects(false, "label " + std::to_string(label) + " outside of a vocabulary of " +
                     std::to_string(vocab));
}

}  // namespace

template <class T>
void token_log_prob(int64_t rows, int64_t vocab, T* logits, const int32_t* labels,
                    const T* temperature, T* log_prob, T* entropy, T* lse) {
  for (int64_t r = 0; r < rows; ++r, logits += vocab) {
    check_label(labels[r], vocab);
    const T tau = safe_temperature(temperature[r]);
    for (int64_t v = 0; v < vocab; ++v) logits[v] /= tau;
    const T max = *std::max_element(logits, logits + vocab);
    double sum = 0, weighted = 0;  // of exp(z - max), and of exp(z - max) (z - max)
    for (int64_t v = 0; v < vocab; ++v) {
      const T shifted = logits[v] - max, e = std::exp(shifted);
      sum += e;
      if (e != T{0}) weighted += static_cast<double>(e) * shifted;  // 0 * -inf counts as 0
    }
    const double log_sum = std::log(sum);
    lse[r] = static_cast<T>(max + log_sum);
    log_prob[r] = static_cast<T>((static_cast<double>(logits[labels[r]]) - max) - log_sum);
    entropy[r] = static_cast<T>(log_sum - weighted / sum);
  }
}

template <class T>
void token_log_prob_backward(int64_t rows, int64_t vocab, T* logits, const int32_t* labels,
                             const T* temperature, const T* entropy, const T* lse,
                             const T* d_log_prob, const T* d_entropy) {
  for (int64_t r = 0; r < rows; ++r, logits += vocab) {
    check_label(labels[r], vocab);
    const T inverse = T{1} / safe_temperature(temperature[r]);
    const T d_lp = d_log_prob[r] * inverse, d_ent = d_entropy[r] * inverse;
    for (int64_t v = 0; v < vocab; ++v) {
      const T log_p = logits[v] - lse[r], p = std::exp(log_p);
      logits[v] = p == T{0} ? T{0} : -p * (d_lp + d_ent * (log_p + entropy[r]));
    }
    logits[labels[r]] += d_lp;
  }
}

template void token_log_prob(int64_t, int64_t, float*, const int32_t*, const float*, float*, float*,
                             float*);
template void token_log_prob(int64_t, int64_t, double*, const int32_t*, const double*, double*,
                             double*, double*);
template void token_log_prob_backward(int64_t, int64_t, float*, const int32_t*, const float*,
                                      const float*, const float*, const float*, const float*);
template void token_log_prob_backward(int64_t, int64_t, double*, const int32_t*, const double*,
                                      const double*, const double*, const double*, const double*);

}  // namespace verlcpp::cpu
