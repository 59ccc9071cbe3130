#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace verlcpp::algo {

struct PolicyLossOptions {
  double clip_ratio_low = 0.2, clip_ratio_high = 0.2, clip_ratio_c = 3.0;
  bool use_kl_loss = false;
  double kl_loss_coef = 0;
  std::string kl_loss_type = "low_var_kl";
  double entropy_coeff = 0;
};

/// Per-token inputs; all spans have one size. `weight` carries mask and the global normaliser
/// (algo/aggregate.h). `ref_log_prob` may be empty without a KL loss, `entropy` without an entropy
/// term.
struct PolicyLossInputs {
  std::span<const double> log_prob, old_log_prob, advantage, weight, ref_log_prob, entropy;
};

/// (sum, count) metrics over tokens with weight != 0 and the weighted losses. Add up over
/// micro-batches and ranks.
struct PolicyLossSums {
  double pg_loss = 0, kl_loss = 0, entropy_loss = 0;  // sum of weight * term, before coefficients
  double clipped = 0, clipped_lower = 0, ppo_kl = 0;  // sums over tokens of 1[...] and old - new
  double tokens = 0;
  void add(const PolicyLossSums& other);
  /// pg_loss - entropy_coeff * entropy_loss + kl_loss_coef * kl_loss.
  double total(const PolicyLossOptions& options) const;
};

/// verl's vanilla dual-clip loss: r = exp(clamp(log_prob - old, -20, 20)); M = max(-A r,
/// -A clamp(r, 1 - lo, 1 + hi)); for A < 0 min(-A c, M), else M. Writes d loss / d log_prob and
/// d loss / d entropy (weights included), zero where the weight is zero.
PolicyLossSums vanilla_policy_loss(const PolicyLossOptions& options, const PolicyLossInputs& in,
                                   std::span<double> d_log_prob, std::span<double> d_entropy);

}  // namespace verlcpp::algo
