#include "cuda/matmul_tuner.h"

#include <algorithm>

#include "base/error.h"

namespace verlcpp::cuda {

MatmulTuner::MatmulTuner(int candidates) : candidates_(static_cast<size_t>(candidates)) {
  expects(candidates > 0, "a tuner needs a candidate");
}

int MatmulTuner::fastest() const {
  int best = -1;
  for (size_t i = 0; i < candidates_.size(); ++i) {
    const Candidate& c = candidates_[i];
    if (c.dropped) continue;
    const bool better =
        best < 0 || (c.told > 0 && (candidates_[static_cast<size_t>(best)].told == 0 ||
                                    c.fastest < candidates_[static_cast<size_t>(best)].fastest));
    if (better) best = static_cast<int>(i);
  }
  return best;
}

bool MatmulTuner::wants_turn(const Candidate& candidate) const {
  if (candidates_.size() == 1) return false;  // nothing to compare it with
  if (candidate.dropped || candidate.asked >= kSamples) return false;
  const Candidate& best = candidates_[static_cast<size_t>(fastest())];
  return candidate.told < 2 || best.told == 0 || candidate.fastest <= kHopeless * best.fastest;
}

bool MatmulTuner::decided() const {
  return std::none_of(candidates_.begin(), candidates_.end(), [&](const Candidate& c) {
    return wants_turn(c) || (!c.dropped && c.told < c.asked);
  });
}

MatmulTuner::Turn MatmulTuner::next() {
  // Everyone once, then again whoever is still in question.
  for (int round = 0; round < kSamples; ++round) {
    for (size_t i = 0; i < candidates_.size(); ++i) {
      Candidate& c = candidates_[i];
      if (c.asked > round || !wants_turn(c)) continue;
      ++c.asked;
      return {static_cast<int>(i), true};
    }
  }
  return {fastest(), false};
}

void MatmulTuner::report(int candidate, double seconds_per_flop) {
  Candidate& c = candidates_.at(static_cast<size_t>(candidate));
  c.fastest = c.told == 0 ? seconds_per_flop : std::min(c.fastest, seconds_per_flop);
  ++c.told;
}

void MatmulTuner::forget(int candidate) { --candidates_.at(static_cast<size_t>(candidate)).asked; }

void MatmulTuner::drop(int candidate) {
  const auto left = std::count_if(candidates_.begin(), candidates_.end(),
                                  [](const Candidate& c) { return !c.dropped; });
  if (left == 1) return;
  candidates_.at(static_cast<size_t>(candidate)).dropped = true;
}

}  // namespace verlcpp::cuda
