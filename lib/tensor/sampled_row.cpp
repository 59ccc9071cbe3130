#include "tensor/sampled_row.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "base/error.h"

namespace verlcpp {

SampledRow::SampledRow(std::span<const double> logits, std::span<const int32_t> counter,
                       const SamplingOptions& options, double tolerance)
    : options_(options), tolerance_(tolerance), z_(logits.begin(), logits.end()) {
  expects(!z_.empty() && counter.size() == 4, "a sampled row has logits and a counter of four");
  if (options.temperature > 0) {
    for (double& z : z_) z /= options.temperature;
  }
  PhiloxCounter words{};
  for (size_t i = 0; i < words.size(); ++i) words[i] = static_cast<uint32_t>(counter[i]);
  words = philox4x32(words, options.key);
  row_key_ = {words[0], words[1]};
  falling_ = z_;
  std::sort(falling_.begin(), falling_.end(), std::greater<>());
  mass_.push_back(0);
  for (const double z : falling_) mass_.push_back(mass_.back() + std::exp(z - falling_.front()));
}

double SampledRow::slack(double x) const { return tolerance_ * std::max(1.0, std::abs(x)); }

double SampledRow::score(int32_t token) const {
  const double z = z_[static_cast<size_t>(token)];
  if (options_.temperature <= 0) return z;
  const auto v = static_cast<uint32_t>(token);
  const double u = uniform_open(philox4x32({v / 4, 0, 0, 0}, row_key_)[v % 4]);
  return z - std::log(-std::log(u));
}

bool SampledRow::left_in(size_t before, double spare) const {
  if (options_.temperature <= 0 || before == 0) return true;
  const bool by_k = options_.top_k > 0 && options_.top_k < static_cast<int64_t>(z_.size());
  const size_t kept = by_k ? static_cast<size_t>(options_.top_k) : z_.size();
  if (before >= kept) return false;
  return options_.top_p >= 1 || mass_[before] < (options_.top_p - spare) * mass_[kept];
}

bool SampledRow::may_be_in(double z) const {
  const auto clearly_better =
      std::lower_bound(falling_.begin(), falling_.end(), z + slack(z), std::greater<>());
  return left_in(static_cast<size_t>(clearly_better - falling_.begin()), -tolerance_);
}

bool SampledRow::surely_in(double z) const {
  const auto clearly_worse =
      std::upper_bound(falling_.begin(), falling_.end(), z - slack(z), std::greater<>());
  return left_in(static_cast<size_t>(clearly_worse - falling_.begin()) - 1, tolerance_);
}

bool SampledRow::may_draw(int32_t token) const {
  const auto vocab = static_cast<int32_t>(z_.size());
  if (token < 0 || token >= vocab || !may_be_in(z_[static_cast<size_t>(token)])) return false;
  const double mine = score(token);
  for (int32_t v = 0; v < vocab; ++v) {
    const double theirs = score(v);
    if (theirs > mine + slack(theirs) && surely_in(z_[static_cast<size_t>(v)])) return false;
  }
  return true;
}

double SampledRow::log_prob(int32_t token) const {
  return z_[static_cast<size_t>(token)] - falling_.front() - std::log(mass_.back());
}

}  // namespace verlcpp
