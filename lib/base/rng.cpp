#include "base/rng.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

namespace verlcpp {

PhiloxCounter philox4x32(PhiloxCounter c, PhiloxKey k) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = uint64_t{0xD2511F53u} * c[0];
    const uint64_t p1 = uint64_t{0xCD9E8D57u} * c[2];
    c = {static_cast<uint32_t>(p1 >> 32) ^ c[1] ^ k[0], static_cast<uint32_t>(p1),
         static_cast<uint32_t>(p0 >> 32) ^ c[3] ^ k[1], static_cast<uint32_t>(p0)};
    k[0] += 0x9E3779B9u;
    k[1] += 0xBB67AE85u;
  }
  return c;
}

double normal(PhiloxKey key, uint64_t stream, uint64_t index) {
  const auto words =
      philox4x32({static_cast<uint32_t>(index), static_cast<uint32_t>(index >> 32),
                  static_cast<uint32_t>(stream), static_cast<uint32_t>(stream >> 32)},
                 key);
  const double radius = std::sqrt(-2.0 * std::log(uniform_open(words[0])));
  return radius * std::cos(2.0 * std::numbers::pi * uniform_open(words[1]));
}

std::vector<int64_t> random_permutation(int64_t n, PhiloxKey key, uint64_t epoch) {
  std::vector<uint64_t> rank(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i) {
    const auto words =
        philox4x32({static_cast<uint32_t>(i), static_cast<uint32_t>(i >> 32),
                    static_cast<uint32_t>(epoch), static_cast<uint32_t>(epoch >> 32)},
                   key);
    rank[static_cast<size_t>(i)] = uint64_t{words[0]} << 32 | words[1];
  }
  std::vector<int64_t> order(static_cast<size_t>(n));
  std::iota(order.begin(), order.end(), int64_t{0});
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    return rank[static_cast<size_t>(a)] < rank[static_cast<size_t>(b)];
  });
  return order;
}

}  // namespace verlcpp
