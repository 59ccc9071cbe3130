#pragma once

#include <cstdint>

// base/rng.h's Philox4x32-10 on the device: the same words.

namespace verlcpp::cuda {

__device__ inline uint4 philox4x32(uint4 c, uint2 k) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = uint64_t{0xD2511F53u} * c.x;
    const uint64_t p1 = uint64_t{0xCD9E8D57u} * c.z;
    c = {static_cast<uint32_t>(p1 >> 32) ^ c.y ^ k.x, static_cast<uint32_t>(p1),
         static_cast<uint32_t>(p0 >> 32) ^ c.w ^ k.y, static_cast<uint32_t>(p0)};
    k.x += 0x9E3779B9u;
    k.y += 0xBB67AE85u;
  }
  return c;
}

__device__ inline double uniform_open(uint32_t word) { return (word + 0.5) * 0x1p-32; }

}  // namespace verlcpp::cuda
