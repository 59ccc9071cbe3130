#include "algo/aggregate.h"

#include <string>

#include "base/error.h"

namespace verlcpp::algo {

LossAggMode parse_loss_agg_mode(std::string_view name) {
  if (name == "token-mean") return LossAggMode::kTokenMean;
  if (name == "token-sum") return LossAggMode::kTokenSum;
  if (name == "seq-mean-token-sum") return LossAggMode::kSeqMeanTokenSum;
  if (name == "seq-mean-token-mean") return LossAggMode::kSeqMeanTokenMean;
  if (name == "seq-mean-token-sum-norm") return LossAggMode::kSeqMeanTokenSumNorm;
  throw ConfigError("Invalid loss_agg_mode: " + std::string(name) +
                    "; valid are token-mean, token-sum, seq-mean-token-sum, seq-mean-token-mean, "
                    "seq-mean-token-sum-norm");
}

namespace {

/// The weight that every token with mask 1 shares. Source: verl's agg_loss.
double common_weight(LossAggMode mode, double count, const AggregateTotals& totals) {
  const auto tokens = static_cast<double>(totals.tokens);
  const auto sequences = static_cast<double>(totals.sequences);
  switch (mode) {
    case LossAggMode::kTokenMean:
      return 1 / tokens;
    case LossAggMode::kTokenSum:
      return 1;
    case LossAggMode::kSeqMeanTokenSum:
      return 1 / sequences;
    case LossAggMode::kSeqMeanTokenMean:
      return 1 / (count + 1e-8) / sequences;
    case LossAggMode::kSeqMeanTokenSumNorm:
      return 1 / sequences / totals.horizon;
  }
  expects(false, "token_weights: unknown mode");
  return 0;
}

}  // namespace

std::vector<double> token_weights(LossAggMode mode, std::span<const uint8_t> mask,
                                  const AggregateTotals& totals) {
  std::vector<double> weights(mask.size(), 0.0);
  int64_t count = 0;
  for (uint8_t m : mask) count += m != 0;
  if (count == 0) return weights;
  expects(totals.tokens >= count && totals.sequences >= 1 && totals.horizon > 0,
          "token_weights: the totals do not cover the sequence");
  const double weight = common_weight(mode, static_cast<double>(count), totals);
  for (size_t i = 0; i < mask.size(); ++i) {
    if (mask[i] != 0) weights[i] = weight;
  }
  return weights;
}

}  // namespace verlcpp::algo
