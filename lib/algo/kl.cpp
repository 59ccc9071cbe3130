#include "algo/kl.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace verlcpp::algo {

namespace {

enum class KlType { kK1, kAbs, kK2, kK3, kUnknown };

KlType base_type(std::string_view type) {
  if (type == "kl" || type == "k1") return KlType::kK1;
  if (type == "abs") return KlType::kAbs;
  if (type == "mse" || type == "k2") return KlType::kK2;
  if (type == "low_var_kl" || type == "k3") return KlType::kK3;
  return KlType::kUnknown;
}

bool straight_through(std::string_view type) { return !type.empty() && type.back() == '+'; }

std::string_view without_plus(std::string_view type) {
  return straight_through(type) ? type.substr(0, type.size() - 1) : type;
}

double sign(double x) { return x > 0 ? 1.0 : (x < 0 ? -1.0 : 0.0); }

/// J. Schulman, "Approximating KL divergence" (2020), with verl's two clamps. Outside a clamp the
/// gradient is zero.
KlTerm low_variance(double d) {
  const double x = std::clamp(-d, -20.0, 20.0);
  const double raw = std::exp(x) - x - 1;
  const bool clamped = x != -d || raw > 10.0;
  return {.value = std::clamp(raw, -10.0, 10.0), .d_log_prob = clamped ? 0.0 : 1 - std::exp(x)};
}

}  // namespace

void check_kl_type(std::string_view type, std::string_view key) {
  if (base_type(without_plus(type)) != KlType::kUnknown) return;
  throw ConfigError(std::string(key) + " is '" + std::string(type) +
                    "'; valid are kl, k1, abs, mse, k2, low_var_kl, k3, each also with a trailing "
                    "'+' (value as named, gradient of k2)");
}

KlTerm kl_penalty(std::string_view type, double log_prob, double ref_log_prob) {
  const double d = log_prob - ref_log_prob;
  KlTerm term;
  switch (base_type(without_plus(type))) {
    case KlType::kK1:
      term = {.value = d, .d_log_prob = 1};
      break;
    case KlType::kAbs:
      term = {.value = std::fabs(d), .d_log_prob = sign(d)};
      break;
    case KlType::kK2:
      term = {.value = 0.5 * d * d, .d_log_prob = d};
      break;
    case KlType::kK3:
      term = low_variance(d);
      break;
    case KlType::kUnknown:
      expects(false, "kl_penalty: unknown type");
  }
  if (straight_through(type)) term.d_log_prob = d;
  return term;
}

KlController::KlController(std::string type, double kl_coef, double target_kl, double horizon)
    : adaptive_(type == "adaptive"), value_(kl_coef), target_(target_kl), horizon_(horizon) {
  if (!adaptive_ && type != "fixed") {
    throw ConfigError("algorithm.kl_ctrl.type is '" + type + "'; valid are fixed, adaptive");
  }
  if (adaptive_ && !(horizon > 0)) {
    throw ConfigError("algorithm.kl_ctrl.horizon must be larger than 0, got " +
                      std::to_string(horizon));
  }
  if (adaptive_ && !(target_kl > 0)) {
    throw ConfigError("algorithm.kl_ctrl.target_kl must be larger than 0, got " +
                      std::to_string(target_kl));
  }
}

void KlController::update(double current_kl, double n_steps) {
  if (!adaptive_) return;
  // Ziegler et al., "Fine-Tuning Language Models from Human Preferences", section 2.2.
  const double error = std::clamp(current_kl / target_ - 1, -0.2, 0.2);
  value_ *= 1 + error * n_steps / horizon_;
}

}  // namespace verlcpp::algo
