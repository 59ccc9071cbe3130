#include <cmath>

#include "cuda/check.h"
#include "cuda/sample.cuh"

// Sampling with top-k and top-p: one block a row, thresholds found by bisection over the bits of a
// float whose order is that of unsigned integers; ties go to the lower token, as on the CPU.

namespace verlcpp::cuda {
namespace {

constexpr int kThreads = 512;

/// Rises with x.
__device__ inline uint32_t key_of(float x) {
  const uint32_t bits = __float_as_uint(x);
  return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

/// What is kept of a row: keys above `key`, and of those equal to it tokens up to `last`.
struct Cut {
  uint32_t key = 0;
  int last = INT32_MAX;
  __device__ bool keeps(uint32_t k, int token) const {
    return k > key || (k == key && token <= last);
  }
};

struct Row {
  const float* logits;
  int vocab;
  float temperature;
  __device__ float z(int v) const { return logits[v] / temperature; }
};

/// Sum over the row of weight(token, key) where it counts.
template <class Weight>
__device__ double row_sum(const Row& row, Weight weight) {
  double sum = 0;
  for (int v = threadIdx.x; v < row.vocab; v += blockDim.x) sum += weight(v, key_of(row.z(v)));
  return block_sum(sum);
}

/// The cut after the fewest best tokens, among those that `within` keeps, whose weights reach
/// `goal`.
template <class Weight>
__device__ Cut cut_at(const Row& row, const Cut& within, double goal, Weight weight) {
  uint32_t low = 0, high = 0xffffffffu;  // the largest key whose suffix reaches the goal
  while (low < high) {
    const uint32_t middle = high - (high - low) / 2;  // rounded up, without overflow
    const double sum = row_sum(row, [&](int v, uint32_t k) {
      return k >= middle && within.keeps(k, v) ? weight(k, v) : 0.0;
    });
    if (sum >= goal) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  const double above = row_sum(
      row, [&](int v, uint32_t k) { return k > low && within.keeps(k, v) ? weight(k, v) : 0.0; });
  int first = 0, last = row.vocab - 1;  // the lowest token up to which ties are needed
  while (first < last) {
    const int middle = first + (last - first) / 2;
    const double sum = row_sum(row, [&](int v, uint32_t k) {
      return k == low && v <= middle && within.keeps(k, v) ? weight(k, v) : 0.0;
    });
    if (above + sum >= goal) {
      last = middle;
    } else {
      first = middle + 1;
    }
  }
  return {low, last};
}

__global__ void cut_sample_kernel(int vocab, int32_t* ids, float* log_prob, const float* logits,
                                  const int32_t* counters, DrawOptions options) {
  const int64_t b = blockIdx.x;
  const Row row{logits + b * vocab, vocab, static_cast<float>(options.temperature)};
  float max = -INFINITY;
  for (int v = threadIdx.x; v < vocab; v += blockDim.x) max = fmaxf(max, row.z(v));
  max = block_max(max);
  const double lse =
      max + log(row_sum(row, [&](int v, uint32_t) -> double { return expf(row.z(v) - max); }));

  Cut cut;
  if (options.top_k > 0 && options.top_k < vocab) {
    cut = cut_at(row, cut, static_cast<double>(options.top_k), [](uint32_t, int) { return 1.0; });
  }
  if (options.top_p < 1.0) {
    const auto weight = [&](uint32_t, int v) -> double { return expf(row.z(v) - max); };
    const double total =
        row_sum(row, [&](int v, uint32_t k) { return cut.keeps(k, v) ? weight(k, v) : 0.0; });
    cut = cut_at(row, cut, options.top_p * total, weight);
  }

  const uint2 row_key = row_key_of(counters, b, options);
  Best best;
  for (int v = threadIdx.x; v < vocab; v += blockDim.x) {
    const float z = row.z(v);
    if (!cut.keeps(key_of(z), v)) continue;
    const uint4 block = philox4x32({static_cast<uint32_t>(v) / 4, 0, 0, 0}, row_key);
    const uint32_t word[4] = {block.x, block.y, block.z, block.w};
    best.take(z + gumbel(word[v % 4]), v);
  }
  best = block_best(best);
  if (threadIdx.x != 0) return;
  const int token = best.token < vocab ? best.token : 0;  // where all logits are NaN
  ids[b] = token;
  log_prob[b] = static_cast<float>(row.z(token) - lse);
}

}  // namespace

void sample_cut(cudaStream_t stream, int64_t rows, int vocab, int32_t* ids, float* log_prob,
                const float* logits, const int32_t* counters, const DrawOptions& options) {
  cut_sample_kernel<<<static_cast<unsigned>(rows), kThreads, 0, stream>>>(
      vocab, ids, log_prob, logits, counters, options);
  check_launch("sample");
}

}  // namespace verlcpp::cuda
