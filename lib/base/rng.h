#pragma once

#include <array>
#include <cstdint>
#include <vector>

namespace verlcpp {

/// What a random number is for. Together with the seed it is the Philox key, so that two purposes
/// never share a stream.
enum class RngPurpose : uint32_t {
  kWeightInit = 1,
  kSampling = 2,
  kDataOrder = 3,
  kMiniBatchOrder = 4,
  kSubsample = 5,
  kValidation = 6,  // sampling of validation responses
};

using PhiloxCounter = std::array<uint32_t, 4>;
using PhiloxKey = std::array<uint32_t, 2>;

/// Philox4x32-10 (Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3"): four random
/// words as a pure function of counter and key. There is no state to save, and CPU and GPU agree.
PhiloxCounter philox4x32(PhiloxCounter counter, PhiloxKey key);

inline PhiloxKey rng_key(uint64_t seed, RngPurpose purpose) {
  return {static_cast<uint32_t>(seed ^ (seed >> 32) * 0x9E3779B9u), static_cast<uint32_t>(purpose)};
}

/// A word as a number in the open interval (0, 1).
inline double uniform_open(uint32_t word) { return (word + 0.5) * 0x1p-32; }

/// A standard normal deviate (Box-Muller) for element `index` of the stream `stream`.
double normal(PhiloxKey key, uint64_t stream, uint64_t index);

/// A permutation of 0..n-1: indices sorted by a random word each (ties by index), a function of
/// (key, epoch) alone.
std::vector<int64_t> random_permutation(int64_t n, PhiloxKey key, uint64_t epoch);

}  // namespace verlcpp
