#pragma once

#include <cmath>

#include "cuda/device.cuh"

// What the kernels of the head share.

namespace verlcpp::cuda {

/// verl's floor, so that temperature 0 means (nearly) greedy instead of a division by zero.
__device__ inline float safe_temperature(float t) { return fmaxf(t, 1e-8f); }

constexpr float kLog2e = 1.44269504f;
constexpr double kLn2 = 0.693147180559945309;
/// e^x as 2^(x log2 e), for x <= 0: its relative error grows with -x, while e^x shrinks much
/// faster.
__device__ inline float exp_of(float x) { return exp2f(x * kLog2e); }

/// The four numbers of stats_R4.
struct RowStats {
  double max = -HUGE_VAL, sum = 0, weighted = 0, label = -HUGE_VAL;
};
/// Those of row r over all parts of the vocabulary; of_parts [parts, rows, 4].
__device__ inline RowStats merged(int64_t rows, int64_t parts, int64_t r, const double* of_parts) {
  RowStats all;
  for (int64_t p = 0; p < parts; ++p) {
    all.max = fmax(all.max, of_parts[(p * rows + r) * 4]);
    all.label = fmax(all.label, of_parts[(p * rows + r) * 4 + 3]);
  }
  for (int64_t p = 0; p < parts; ++p) {
    const double* s = of_parts + (p * rows + r) * 4;
    if (s[0] == -HUGE_VAL) continue;
    const double shift = s[0] - all.max, scale = exp(shift);
    all.sum += scale * s[1];
    all.weighted += scale * (s[2] + s[1] * shift);
  }
  return all;
}

/// Whether rows of `vocab` elements can be taken four at a time.
template <class T>
inline bool in_fours(const T* data, int64_t vocab) {
  return vocab % 4 == 0 && reinterpret_cast<uintptr_t>(data) % (4 * sizeof(T)) == 0;
}

}  // namespace verlcpp::cuda
