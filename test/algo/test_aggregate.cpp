#include "algo/aggregate.h"
#include "base/error.h"
#include "support/catch.h"

using namespace verlcpp;
using namespace verlcpp::algo;

namespace {

using Mask = std::vector<uint8_t>;

/// The aggregated loss of a mini-batch as sum(weight * x).
double aggregated(LossAggMode mode, const std::vector<Mask>& masks,
                  const std::vector<std::vector<double>>& losses, double horizon) {
  AggregateTotals totals{
      .tokens = 0, .sequences = static_cast<int64_t>(masks.size()), .horizon = horizon};
  for (const Mask& mask : masks) {
    for (uint8_t m : mask) totals.tokens += m;
  }
  double sum = 0;
  for (size_t s = 0; s < masks.size(); ++s) {
    const auto weights = token_weights(mode, masks[s], totals);
    for (size_t t = 0; t < weights.size(); ++t) sum += weights[t] * losses[s][t];
  }
  return sum;
}

}  // namespace

TEST_CASE("The five modes on a mini-batch worked by hand") {
  // Masked sums 1 + 3 = 4 (2 tokens), 10 (1 token), and one fully masked sequence.
  const std::vector<Mask> masks = {{1, 0, 1}, {1}, {0, 0}};
  const std::vector<std::vector<double>> losses = {{1, 100, 3}, {10}, {7, 7}};
  CHECK(aggregated(LossAggMode::kTokenMean, masks, losses, 1) == Approx(14.0 / 3));
  CHECK(aggregated(LossAggMode::kTokenSum, masks, losses, 1) == Approx(14.0));
  CHECK(aggregated(LossAggMode::kSeqMeanTokenSum, masks, losses, 1) == Approx(14.0 / 3));
  CHECK(aggregated(LossAggMode::kSeqMeanTokenSumNorm, masks, losses, 5) == Approx(14.0 / 15));
  CHECK(aggregated(LossAggMode::kSeqMeanTokenMean, masks, losses, 1) ==
        Approx((4 / (2 + 1e-8) + 10 / (1 + 1e-8)) / 3).epsilon(1e-14));
}

TEST_CASE("No token at all gives zeros, not a division by zero") {
  for (auto mode : {LossAggMode::kTokenMean, LossAggMode::kTokenSum, LossAggMode::kSeqMeanTokenSum,
                    LossAggMode::kSeqMeanTokenMean, LossAggMode::kSeqMeanTokenSumNorm}) {
    CHECK(token_weights(mode, Mask{0, 0}, {}) == std::vector<double>{0, 0});
  }
}

TEST_CASE("Totals that do not cover the sequence are our own bug") {
  CHECK_THROWS_AS(token_weights(LossAggMode::kTokenMean, Mask{1, 1}, {.tokens = 1, .sequences = 1}),
                  std::logic_error);
}

TEST_CASE("Names of the modes") {
  CHECK(parse_loss_agg_mode("token-mean") == LossAggMode::kTokenMean);
  CHECK(parse_loss_agg_mode("token-sum") == LossAggMode::kTokenSum);
  CHECK(parse_loss_agg_mode("seq-mean-token-sum") == LossAggMode::kSeqMeanTokenSum);
  CHECK(parse_loss_agg_mode("seq-mean-token-mean") == LossAggMode::kSeqMeanTokenMean);
  CHECK(parse_loss_agg_mode("seq-mean-token-sum-norm") == LossAggMode::kSeqMeanTokenSumNorm);
  try {
    parse_loss_agg_mode("token_mean");
    FAIL("was not refused");
  } catch (const ConfigError& error) {
    CHECK(std::string(error.what()) ==
          "Invalid loss_agg_mode: token_mean; valid are token-mean, token-sum, "
          "seq-mean-token-sum, seq-mean-token-mean, seq-mean-token-sum-norm");
  }
}
