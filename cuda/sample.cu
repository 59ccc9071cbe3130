#include <algorithm>
#include <cmath>

#include "cuda/check.h"
#include "cuda/kernels.h"
#include "cuda/sample.cuh"

// Sampling from all tokens: one read of the logits, by several blocks a row. Ties go to the lower
// token, as on the CPU.

namespace verlcpp::cuda {
namespace {

constexpr int kPartThreads = 256;
constexpr int kMostParts = 32;

/// What one block finds in its part of a row: the largest z, the sum of e^(z - max), the best.
struct Part {
  double sum;
  Best best;
  float max;
};

/// Four logits from token 4 q on, -inf behind the row's end.
__device__ inline float4 four_logits(const float* row, int q, int vocab) {
  if (vocab % 4 == 0) return reinterpret_cast<const float4*>(row)[q];
  const auto at = [&](int v) { return v < vocab ? row[v] : -INFINITY; };
  return {at(4 * q), at(4 * q + 1), at(4 * q + 2), at(4 * q + 3)};
}

/// One thread's running values. The noise of a token is -log E, E = -log u >= 1 - u, so the token
/// can only be the warp's best so far if 1 - u <= e^(z - best): which a comparison of what the
/// softmax's sum needs anyway decides, but for few tokens, and those are computed in double as on
/// the CPU.
struct Running {
  float max = -INFINITY, sum = 0;
  double bar = -HUGE_VAL;  // the warp's best score
  float reach = INFINITY;  // e^(max - bar), and a little more than rounding may be wrong by
  Best best;

  __device__ void set_reach() {
    reach = expf(static_cast<float>(max - bar) + 1e-3f + 1e-6f * fabsf(max));
  }
  /// Four tokens from 4 q on. Returns whether one had to be looked at.
  template <bool kGreedy>
  __device__ bool take(int q, const float4& four, const DrawOptions& options, uint2 row_key) {
    const float logit[4] = {four.x, four.y, four.z, four.w};
    const auto temperature = static_cast<float>(options.temperature);
    float z[4], high = -INFINITY;
    for (int i = 0; i < 4; ++i) high = fmaxf(high, z[i] = logit[i] / temperature);
    if (high == -INFINITY) return false;
    if (high > max) {
      sum *= expf(max - high);
      max = high;
      set_reach();
    }
    uint4 block{};
    if (!kGreedy) block = philox4x32({static_cast<uint32_t>(q), 0, 0, 0}, row_key);
    const uint32_t word[4] = {block.x, block.y, block.z, block.w};
    bool looked = false;
    for (int i = 0; i < 4; ++i) {
      const float e = expf(z[i] - max);
      sum += e;
      if (kGreedy) {
        best.take(logit[i], 4 * q + i);
        continue;
      }
      if (__uint2float_rn(~word[i]) * 0x1p-32f > e * reach) continue;  // NaN is looked at
      best.take(logit[i] / options.temperature + gumbel(word[i]), 4 * q + i);
      looked = true;
    }
    return looked;
  }
  __device__ void raise_bar() {
    bar = best.score;
    for (int offset = 16; offset > 0; offset /= 2) {
      bar = fmax(bar, __shfl_xor_sync(0xffffffffu, bar, offset));
    }
    set_reach();
  }
};

/// blockIdx: part, row.
template <bool kGreedy>
__global__ void part_kernel(int vocab, Part* parts, const float* logits, const int32_t* counters,
                            DrawOptions options) {
  const int64_t row = blockIdx.y;
  const uint2 row_key = row_key_of(counters, row, options);
  const int quads = (vocab + 3) / 4, count = (quads + gridDim.x - 1) / gridDim.x;
  const int first = static_cast<int>(blockIdx.x) * count, end = min(first + count, quads);
  Running r;
  for (int start = first; start < end; start += kPartThreads) {
    const int q = start + static_cast<int>(threadIdx.x);
    const bool looked = q < end && r.take<kGreedy>(q, four_logits(logits + row * vocab, q, vocab),
                                                   options, row_key);
    if (__any_sync(0xffffffffu, looked)) r.raise_bar();
  }
  const float max = block_max(r.max);
  const double own = r.max == -INFINITY ? 0.0 : r.sum * static_cast<double>(expf(r.max - max));
  const double sum = block_sum(own);
  const Best best = block_best(r.best);
  if (threadIdx.x == 0) parts[row * gridDim.x + blockIdx.x] = {sum, best, max};
}

/// One warp a row.
__global__ void join_kernel(int vocab, int parts, int32_t* ids, float* log_prob, const Part* part,
                            const float* logits, DrawOptions options) {
  const int64_t row = blockIdx.x;
  const int lane = static_cast<int>(threadIdx.x);
  Part mine{0, {}, -INFINITY};
  if (lane < parts) mine = part[row * parts + lane];
  float max = mine.max;
  for (int offset = 16; offset > 0; offset /= 2) {
    max = fmaxf(max, __shfl_xor_sync(0xffffffffu, max, offset));
  }
  double sum = mine.max == -INFINITY ? 0.0 : mine.sum * exp(static_cast<double>(mine.max) - max);
  for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, offset);
  const Best best = warp_best(mine.best);
  if (lane != 0) return;
  const int token = best.token < vocab ? best.token : 0;  // where all logits are NaN
  ids[row] = token;
  const float z = logits[row * vocab + token] / static_cast<float>(options.temperature);
  log_prob[row] = static_cast<float>(z - (max + log(sum)));
}

bool cuts(int64_t vocab, const SamplingOptions& options) {
  return options.temperature > 0 &&
         ((options.top_k > 0 && options.top_k < vocab) || options.top_p < 1.0);
}

/// Blocks a row: enough for the whole GPU, of a thousand quads at least.
int64_t parts_of(int64_t rows, int64_t vocab) {
  constexpr int64_t kBlocks = 8 * 132;  // on all multiprocessors of an H200 at one time
  const int64_t most = std::min<int64_t>(kMostParts, (vocab + 4095) / 4096);
  return std::clamp<int64_t>(kBlocks / rows, 1, most);
}

}  // namespace

int64_t sample_workspace(int64_t rows, int64_t vocab, const SamplingOptions& options) {
  if (rows == 0 || vocab == 0 || cuts(vocab, options)) return 0;
  return rows * parts_of(rows, vocab) * static_cast<int64_t>(sizeof(Part));
}

void sample(cudaStream_t stream, int64_t rows, int64_t vocab, int32_t* ids, float* log_prob,
            const float* logits, const int32_t* counters, const SamplingOptions& options,
            std::byte* workspace) {
  expects(rows == 0 || vocab > 0, "sampling from an empty vocabulary");
  if (rows == 0) return;
  const bool greedy = options.temperature <= 0;
  const DrawOptions device{.temperature = greedy ? 1.0 : options.temperature,
                           .top_k = options.top_k,
                           .top_p = options.top_p,
                           .key = {options.key[0], options.key[1]}};
  const auto n = static_cast<int>(vocab);
  if (cuts(vocab, options)) {
    return sample_cut(stream, rows, n, ids, log_prob, logits, counters, device);
  }
  const auto parts = static_cast<unsigned>(parts_of(rows, vocab));
  const dim3 grid(parts, static_cast<unsigned>(rows));
  auto* part = reinterpret_cast<Part*>(workspace);
  const auto kernel = greedy ? part_kernel<true> : part_kernel<false>;
  kernel<<<grid, kPartThreads, 0, stream>>>(n, part, logits, counters, device);
  join_kernel<<<static_cast<unsigned>(rows), 32, 0, stream>>>(n, static_cast<int>(parts), ids,
                                                              log_prob, part, logits, device);
  check_launch("sample");
}

}  // namespace verlcpp::cuda
