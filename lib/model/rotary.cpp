#include "model/rotary.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/error.h"

namespace verlcpp::model {
namespace {

constexpr double kTurn = 2 * std::numbers::pi;

/// Llama 3.1: wave lengths above original_context / low_freq_factor are stretched, those below
/// original_context / high_freq_factor are not, those between in proportion.
double llama3(const Rotary& rotary, double frequency) {
  const double turns = rotary.original_context * frequency / kTurn;
  const double kept = std::clamp(
      (turns - rotary.low_freq_factor) / (rotary.high_freq_factor - rotary.low_freq_factor), 0.0,
      1.0);
  return (1 - kept) * frequency / rotary.factor + kept * frequency;
}

/// YaRN: the dimension (of H) whose angle turns `rotations` times in the original context.
double yarn_dimension(const Rotary& rotary, double rotations, double head_dim) {
  return head_dim * std::log(rotary.original_context / (rotations * kTurn)) /
         (2 * std::log(rotary.theta));
}

/// Dimensions that turn fast keep their frequency, slow ones are stretched, a ramp between.
std::vector<double> yarn(const Rotary& rotary, std::vector<double> frequencies) {
  const auto half = static_cast<double>(frequencies.size());
  double low = yarn_dimension(rotary, rotary.beta_fast, 2 * half);
  double high = yarn_dimension(rotary, rotary.beta_slow, 2 * half);
  if (rotary.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, 2 * half - 1);
  if (low == high) high += 0.001;  // as transformers has it: no division by zero
  for (size_t i = 0; i < frequencies.size(); ++i) {
    const double slow = std::clamp((static_cast<double>(i) - low) / (high - low), 0.0, 1.0);
    frequencies[i] = slow * frequencies[i] / rotary.factor + (1 - slow) * frequencies[i];
  }
  return frequencies;
}

}  // namespace

double yarn_attention_factor(double factor, double m) {
  return factor <= 1 ? 1.0 : 0.1 * m * std::log(factor) + 1;
}

std::vector<double> Rotary::inverse_frequencies(int64_t head_dim) const {
  expects(head_dim > 0 && head_dim % 2 == 0, "the head dim must be even");
  std::vector<double> frequencies;
  for (int64_t i = 0; i < head_dim; i += 2) {
    frequencies.push_back(std::pow(theta, -static_cast<double>(i) / static_cast<double>(head_dim)));
  }
  switch (type) {
    case Type::kDefault:
      break;
    case Type::kLinear:
      for (double& f : frequencies) f /= factor;
      break;
    case Type::kLlama3:
      for (double& f : frequencies) f = llama3(*this, f);
      break;
    case Type::kYarn:
      return yarn(*this, std::move(frequencies));
  }
  return frequencies;
}

}  // namespace verlcpp::model
