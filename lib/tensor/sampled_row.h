#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tensor/backend.h"

namespace verlcpp {

/// One row of Backend::sample in double precision: which tokens may rounding make the draw?
class SampledRow {
 public:
  /// `tolerance`: of a z or a score relative to max(1, |it|), and of a probability.
  SampledRow(std::span<const double> logits, std::span<const int32_t> counter,
             const SamplingOptions& options, double tolerance);

  /// True when top-k and top-p may leave the token in, and no token that they surely leave in has
  /// a score (z plus noise) above its by more than the tolerance.
  bool may_draw(int32_t token) const;
  /// log-softmax of z at a token.
  double log_prob(int32_t token) const;

 private:
  double score(int32_t token) const;
  double slack(double x) const;
  /// So many tokens are before this one: does top-k and top-p leave it in, with so much to spare?
  bool left_in(size_t before, double spare) const;
  bool may_be_in(double z) const;
  bool surely_in(double z) const;

  SamplingOptions options_;
  double tolerance_;
  PhiloxKey row_key_{};
  std::vector<double> z_;
  std::vector<double> falling_;  // z, sorted
  std::vector<double> mass_;     // [i]: sum of e^(z - max) of the first i of them
};

}  // namespace verlcpp
