#pragma once

#include <string>
#include <string_view>

namespace verlcpp::algo {

/// verl's kl_penalty. d = log_prob - ref. kl|k1: d; abs: |d|; mse|k2: d^2/2; low_var_kl|k3: x =
/// clamp(-d, -20, 20), exp(x) - x - 1 clamped to [-10, 10]. A trailing "+" (k1+, k3+, ...) keeps
/// the forward value and takes k2's gradient (straight-through).
struct KlTerm {
  double value = 0;
  double d_log_prob = 0;
};
/// Throws ConfigError naming the valid types.
void check_kl_type(std::string_view type, std::string_view key);
KlTerm kl_penalty(std::string_view type, double log_prob, double ref_log_prob);

/// verl's KL controllers: fixed keeps beta; adaptive multiplies it by 1 + clip(kl / target - 1,
/// -0.2, 0.2) * n_steps / horizon.
class KlController {
 public:
  KlController(std::string type, double kl_coef, double target_kl, double horizon);
  double value() const { return value_; }
  void set_value(double value) { value_ = value; }  // resume
  void update(double current_kl, double n_steps);

 private:
  bool adaptive_;
  double value_, target_, horizon_;
};

}  // namespace verlcpp::algo
