#include "algo/policy_loss.h"

#include <algorithm>
#include <cmath>

#include "algo/kl.h"
#include "base/error.h"

namespace verlcpp::algo {

namespace {

struct TokenLoss {
  double loss = 0;
  double d_log_prob = 0;
  double ppo_kl = 0;  // old - new, clamped as the ratio's exponent is
  bool clipped = false, clipped_lower = false;
};

/// Source: verl's compute_policy_loss_vanilla; the lower bound is that of dual-clip PPO (Ye et al.
/// 2020).
TokenLoss vanilla_token(const PolicyLossOptions& options, double log_prob, double old_log_prob,
                        double advantage) {
  const double raw = log_prob - old_log_prob;
  const double exponent = std::clamp(raw, -20.0, 20.0);
  const double ratio = std::exp(exponent);
  const double bounded = std::clamp(ratio, 1 - options.clip_ratio_low, 1 + options.clip_ratio_high);
  const double unclipped = -advantage * ratio;
  const double clipped = -advantage * bounded;
  const double upper = std::max(unclipped, clipped);
  const double lower = -advantage * options.clip_ratio_c;

  TokenLoss out;
  out.ppo_kl = -exponent;
  out.clipped = clipped > unclipped;
  out.clipped_lower = advantage < 0 && upper > lower;
  out.loss = out.clipped_lower ? lower : upper;
  // Only the unclipped ratio depends on log_prob: `clipped` wins where its ratio is a constant, and
  // where both are equal the ratio is inside its bounds.
  const bool flat = out.clipped || out.clipped_lower || exponent != raw;
  out.d_log_prob = flat ? 0.0 : unclipped;
  return out;
}

void check_sizes(const PolicyLossOptions& options, const PolicyLossInputs& in,
                 std::span<double> d_log_prob, std::span<double> d_entropy) {
  const size_t n = in.log_prob.size();
  const auto optional_size = [n](size_t size) { return size == 0 || size == n; };
  expects(in.old_log_prob.size() == n && in.advantage.size() == n && in.weight.size() == n &&
              d_log_prob.size() == n,
          "policy loss: all spans have one size");
  expects(options.use_kl_loss ? in.ref_log_prob.size() == n : optional_size(in.ref_log_prob.size()),
          "policy loss: a KL loss needs the reference log-probs");
  expects(options.entropy_coeff != 0 ? in.entropy.size() == n && d_entropy.size() == n
                                     : optional_size(in.entropy.size()),
          "policy loss: an entropy term needs the entropies and room for their gradient");
  expects(optional_size(d_entropy.size()), "policy loss: d_entropy has another size");
}

}  // namespace

void PolicyLossSums::add(const PolicyLossSums& other) {
  pg_loss += other.pg_loss;
  kl_loss += other.kl_loss;
  entropy_loss += other.entropy_loss;
  clipped += other.clipped;
  clipped_lower += other.clipped_lower;
  ppo_kl += other.ppo_kl;
  tokens += other.tokens;
}

double PolicyLossSums::total(const PolicyLossOptions& options) const {
  double loss = pg_loss - options.entropy_coeff * entropy_loss;
  if (options.use_kl_loss) loss += options.kl_loss_coef * kl_loss;
  return loss;
}

PolicyLossSums vanilla_policy_loss(const PolicyLossOptions& options, const PolicyLossInputs& in,
                                   std::span<double> d_log_prob, std::span<double> d_entropy) {
  check_sizes(options, in, d_log_prob, d_entropy);
  std::fill(d_log_prob.begin(), d_log_prob.end(), 0.0);
  std::fill(d_entropy.begin(), d_entropy.end(), 0.0);
  PolicyLossSums sums;
  for (size_t i = 0; i < in.log_prob.size(); ++i) {
    const double weight = in.weight[i];
    if (weight == 0) continue;
    const TokenLoss token =
        vanilla_token(options, in.log_prob[i], in.old_log_prob[i], in.advantage[i]);
    sums.tokens += 1;
    sums.pg_loss += weight * token.loss;
    sums.ppo_kl += token.ppo_kl;
    sums.clipped += token.clipped;
    sums.clipped_lower += token.clipped_lower;
    d_log_prob[i] = weight * token.d_log_prob;
    if (options.use_kl_loss) {
      const KlTerm kl = kl_penalty(options.kl_loss_type, in.log_prob[i], in.ref_log_prob[i]);
      sums.kl_loss += weight * kl.value;
      d_log_prob[i] += weight * options.kl_loss_coef * kl.d_log_prob;
    }
    if (!in.entropy.empty()) sums.entropy_loss += weight * in.entropy[i];
    if (!d_entropy.empty()) d_entropy[i] = -weight * options.entropy_coeff;
  }
  return sums;
}

}  // namespace verlcpp::algo
