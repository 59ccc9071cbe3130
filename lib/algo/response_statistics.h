#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace verlcpp::algo {

struct NamedStatistic {
  std::string name;  // "mean@8", "best@4/std"
  double value = 0;
};

/// verl's statistics of the n responses to one validation prompt (process_validation_metrics):
/// mean@n and, for n > 1, std@n (population) and, for k = 2, 4, 8, ... below n and n itself,
/// best@k, worst@k and maj@k, each as /mean and /std (population) over 1000 draws of k of the n
/// responses with replacement.
///
/// The draws are those of numpy's RandomState(42).choice(n, k), begun anew for every statistic as
/// verl does: words of MT19937 seeded with 42, masked to the bits of n - 1, and those above n - 1
/// left out. So all prompts with n responses share them.
class ResponseStatistics {
 public:
  /// n >= 1.
  explicit ResponseStatistics(int64_t n);

  /// `values`: of the n responses. `votes`: empty, or what each answered; maj@k is the value of the
  /// first drawn response with the most frequent answer, of equally frequent ones the first drawn,
  /// and is there only with votes.
  std::vector<NamedStatistic> of(std::span<const double> values,
                                 std::span<const std::string> votes) const;

 private:
  struct Draws {
    int64_t k = 0;
    std::vector<int32_t> responses;  // kDraws rows of k
  };
  int64_t n_;
  std::vector<Draws> draws_;
};

/// `count` numbers of 0..n-1: numpy.random.RandomState(seed).choice(n, count).
std::vector<int32_t> numpy_choice(int64_t n, int64_t count, uint32_t seed);

}  // namespace verlcpp::algo
