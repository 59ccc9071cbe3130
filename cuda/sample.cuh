#pragma once

#include <cmath>
#include <cstdint>

#include "cuda/device.cuh"
#include "cuda/philox.cuh"

// What sampling with and without a cut share.

namespace verlcpp::cuda {

/// A token and its score: of two the better one has the larger score, then the lower token.
struct Best {
  double score = -HUGE_VAL;
  int token = INT32_MAX;
  __device__ void take(double other, int other_token) {
    if (!(other > score || (other == score && other_token < token))) return;  // NaN is not
    score = other;
    token = other_token;
  }
};

__device__ inline Best warp_best(Best best) {
  for (int offset = 16; offset > 0; offset /= 2) {
    const double other = __shfl_xor_sync(0xffffffffu, best.score, offset);
    best.take(other, __shfl_xor_sync(0xffffffffu, best.token, offset));
  }
  return best;
}

/// Every thread gets it.
__device__ inline Best block_best(Best best) {
  __shared__ double scores[32];
  __shared__ int tokens[32];
  best = warp_best(best);
  const int warp = static_cast<int>(threadIdx.x) / 32;
  __syncthreads();
  if (threadIdx.x % 32 == 0) {
    scores[warp] = best.score;
    tokens[warp] = best.token;
  }
  __syncthreads();
  Best all;
  for (int w = 0; w < static_cast<int>(blockDim.x) / 32; ++w) all.take(scores[w], tokens[w]);
  return all;
}

struct DrawOptions {
  double temperature;  // 1 when greedy
  int64_t top_k;
  double top_p;
  uint2 key;
};

__device__ inline uint2 row_key_of(const int32_t* counters, int64_t row,
                                   const DrawOptions& options) {
  const int32_t* c = counters + 4 * row;
  const uint4 words = philox4x32({static_cast<uint32_t>(c[0]), static_cast<uint32_t>(c[1]),
                                  static_cast<uint32_t>(c[2]), static_cast<uint32_t>(c[3])},
                                 options.key);
  return {words.x, words.y};
}

__device__ inline double gumbel(uint32_t word) { return -log(-log(uniform_open(word))); }

/// With top-k or top-p, at a temperature above 0.
void sample_cut(cudaStream_t stream, int64_t rows, int vocab, int32_t* ids, float* log_prob,
                const float* logits, const int32_t* counters, const DrawOptions& options);

}  // namespace verlcpp::cuda
