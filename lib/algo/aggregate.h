#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace verlcpp::algo {

/// verl's loss_agg_mode.
enum class LossAggMode {
  kTokenMean,
  kTokenSum,
  kSeqMeanTokenSum,
  kSeqMeanTokenMean,
  kSeqMeanTokenSumNorm
};
/// Throws ConfigError naming the key and the five modes.
LossAggMode parse_loss_agg_mode(std::string_view name);

/// The *global* quantities of one mini-batch that loss weights are built from.
struct AggregateTotals {
  int64_t tokens = 0;  // response tokens with mask 1
  int64_t sequences =
      0;               // sequences of the mini-batch (also fully masked ones); no padding samples
  double horizon = 1;  // loss_scale_factor, else the maximum response length (-norm mode only)
};

/// Weight of every response token of one sequence, so that the aggregated loss is sum(weight * x):
/// token-mean: m / tokens; token-sum: m; seq-mean-token-sum: m / sequences;
/// seq-mean-token-sum-norm: that / horizon; seq-mean-token-mean: m / (count + 1e-8) / sequences,
/// count = sum of m. Zero for a fully masked sequence; no token at all gives all zeros.
std::vector<double> token_weights(LossAggMode mode, std::span<const uint8_t> mask,
                                  const AggregateTotals& totals);

}  // namespace verlcpp::algo
