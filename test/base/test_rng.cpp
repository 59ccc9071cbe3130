#include <algorithm>

#include "base/rng.h"
#include "support/catch.h"

using namespace verlcpp;

// Known-answer vectors of the Random123 distribution (kat_vectors, philox 4x32 10 rounds).
TEST_CASE("philox4x32 matches the published vectors") {
  CHECK(philox4x32({0, 0, 0, 0}, {0, 0}) ==
        PhiloxCounter{0x6627e8d5u, 0xe169c58du, 0xbc57ac4cu, 0x9b00dbd8u});
  CHECK(philox4x32({~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}) ==
        PhiloxCounter{0x408f276du, 0x41c83b0eu, 0xa20bc7c6u, 0x6d5451fdu});
  CHECK(philox4x32({0x243f6a88u, 0x85a308d3u, 0x13198a2eu, 0x03707344u},
                   {0xa4093822u, 0x299f31d0u}) ==
        PhiloxCounter{0xd16cfe09u, 0x94fdccebu, 0x5001e420u, 0x24126ea1u});
}

TEST_CASE("normal deviates have mean 0 and variance 1") {
  const PhiloxKey key = rng_key(7, RngPurpose::kWeightInit);
  double sum = 0, squares = 0;
  const int n = 100000;
  for (int i = 0; i < n; ++i) {
    const double x = normal(key, 3, static_cast<uint64_t>(i));
    sum += x;
    squares += x * x;
  }
  CHECK(std::abs(sum / n) < 0.015);
  CHECK(std::abs(squares / n - 1) < 0.02);
}

TEST_CASE("random_permutation is a permutation and depends on the epoch") {
  const PhiloxKey key = rng_key(1, RngPurpose::kDataOrder);
  auto first = random_permutation(101, key, 0);
  CHECK(first != random_permutation(101, key, 1));
  CHECK(first == random_permutation(101, key, 0));
  std::sort(first.begin(), first.end());
  for (int64_t i = 0; i < 101; ++i) CHECK(first[static_cast<size_t>(i)] == i);
}
