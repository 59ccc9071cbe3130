#pragma once

#include <cstdint>

namespace verlcpp::cpu {

/// Sum of term(i), i in [0, n), in double over eight interleaved partial sums: a fixed order, and
/// one that vectorises.
template <class Term>
double sum_of(int64_t n, Term term) {
  constexpr int64_t kLanes = 8;
  double partial[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (int64_t lane = 0; lane < kLanes; ++lane) partial[lane] += term(i + lane);
  }
  double total = 0;
  for (; i < n; ++i) total += term(i);
  for (double p : partial) total += p;
  return total;
}

}  // namespace verlcpp::cpu
