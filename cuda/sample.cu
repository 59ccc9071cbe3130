#include <algorithm>
#include <cmath>

#include "cuda/check.h"
#include "cuda/kernels.h"
#include "cuda/sample.cuh"

// Sampling from all tokens: one read of the logits, by several blocks a row. Ties go to the lower
// token, as on the CPU.
//
// A score z + noise, noise = -log E with E = -log u, is largest where E / e^z is smallest: tokens
// race, and arrive at that time. 1 - u <= E <= (1 - u) / u bounds a time without a logarithm, and
// so tells of nearly all tokens that others arrive before them. Those few that may be first are
// computed in double as on the CPU.

namespace verlcpp::cuda {
namespace {

constexpr int kPartThreads = 256, kBlocksOfSm = 4;
constexpr int kQuads = 4;  // four logits each, that a thread reads at one time
constexpr int kMostParts = 32;

/// What one block finds in its part of a row: the best, and the sum of 2^(z - reference). Here and
/// below z = logit / temperature * log2 e.
struct Part {
  double sum;
  Best best;
  float reference;
};

/// The tokens of one block: the quads [first, end) of a row.
struct Range {
  const float* row;
  int vocab, first, end;

  __device__ Range(const float* logits, int of_vocab) : vocab(of_vocab) {
    row = logits + int64_t{blockIdx.y} * vocab;
    const int quads = (vocab + 3) / 4, blocks = static_cast<int>(gridDim.x);
    const int count = (quads + blocks - 1) / blocks;
    first = static_cast<int>(blockIdx.x) * count;
    end = min(first + count, quads);
  }
  /// From token 4 q on; -inf behind the row's end, and behind the range's.
  __device__ float4 at(int q) const {
    if (q >= end) return {-INFINITY, -INFINITY, -INFINITY, -INFINITY};
    if (vocab % 4 == 0) return reinterpret_cast<const float4*>(row)[q];
    const auto one = [&](int v) { return v < vocab ? row[v] : -INFINITY; };
    return {one(4 * q), one(4 * q + 1), one(4 * q + 2), one(4 * q + 3)};
  }
  /// The largest logit of the quads before `to`; the block's.
  __device__ float largest(int to) const {
    float high = -INFINITY;
#pragma unroll kQuads
    for (int q = first + static_cast<int>(threadIdx.x); q < to; q += kPartThreads) {
      const float4 x = at(q);
      high = fmaxf(fmaxf(fmaxf(x.x, x.y), fmaxf(x.z, x.w)), high);
    }
    return block_max(high);
  }
};

/// One thread's part in the race. Times are in units of 2^-32 at a token of z = reference; a
/// token's rate is 2^(z - reference), +inf where it is far above.
struct Runner {
  double temperature;
  uint2 row_key;
  float scale, reference, slack;
  float sum = 0;
  float reach = INFINITY;  // nobody who arrives later can be first
  Best best;               // of those computed
  // A token that may be first, not computed yet.
  int token = -1;
  float earliest = 0, logit = 0;
  uint32_t word = 0;

  __device__ Runner(const DrawOptions& draw, uint2 key, float largest)
      : temperature(draw.temperature), row_key(key), scale(log2_scale(draw)) {
    reference = fminf(fmaxf(largest * scale, -1e30f), 1e30f);
    // Rates err by roundings of z and of its distance from the reference.
    slack = exp2f(2e-3f + 1e-6f * fabsf(reference));
  }
  __device__ static float log2_scale(const DrawOptions& draw) {
    return static_cast<float>(1.4426950408889634 / draw.temperature);
  }
  __device__ uint4 words(int q) const {
    return philox4x32({static_cast<uint32_t>(q), 0, 0, 0}, row_key);
  }
  __device__ float rate(float x) const { return exp2_fast(fmaf(x, scale, -reference)); }
  __device__ static float earliest_of(uint32_t w) { return __uint2float_rn(~w); }
  /// A token of that rate arrives before.
  __device__ void arrives(uint32_t w, float its_rate) {
    const float u = (__uint2float_rn(w) + 0.5f) * 0x1p-32f;
    const float latest = (earliest_of(w) + 1.0f) * slack / (u * its_rate);
    reach = fmaxf(fminf(reach, latest), 1e-37f);
  }
  __device__ void settle() {
    if (token >= 0 && earliest < reach) best.take(logit / temperature + gumbel(word), token);
    token = -1;
  }
  __device__ void consider(int its_token, float its_logit, uint32_t its_word) {
    const float its_rate = rate(its_logit);
    if (!(earliest_of(its_word) < its_rate * reach)) return;  // nor where it is NaN
    arrives(its_word, its_rate);
    settle();
    token = its_token;
    logit = its_logit;
    word = its_word;
    earliest = earliest_of(its_word) / its_rate;
  }
  /// Of the quad q everything but who is first. Returns whether that may be one of the four, or one
  /// is NaN.
  __device__ bool skim(int q, const float4& x) {
    const float together = (rate(x.x) + rate(x.y)) + (rate(x.z) + rate(x.w));
    sum += together;
    const uint4 w = words(q);
    return !(earliest_of(max(max(w.x, w.y), max(w.z, w.w))) >= together * reach);
  }
  /// In a loop, so that there is little code.
  __device__ void look_at(int q, const float4& x) {
    const uint4 w = words(q);
#pragma unroll 1
    for (int i = 0; i < 4; ++i) {
      const float logits[2] = {i % 2 == 0 ? x.x : x.y, i % 2 == 0 ? x.z : x.w};
      const uint32_t its_words[2] = {i % 2 == 0 ? w.x : w.y, i % 2 == 0 ? w.z : w.w};
      consider(4 * q + i, i < 2 ? logits[0] : logits[1], i < 2 ? its_words[0] : its_words[1]);
    }
  }
  __device__ void take_greedily(int q, const float4& x) {
    const float logits[4] = {x.x, x.y, x.z, x.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      sum += rate(logits[i]);
      best.take(logits[i], 4 * q + i);
    }
  }
};

/// The smallest reach of the block, as bits: of positive floats these have the same order. Only
/// atomics meet there between barriers.
struct Reach {
  uint32_t& bits;
  /// Takes in a warp's, and returns what is known by then.
  __device__ float share(float reach) const {
    const uint32_t mine = __reduce_min_sync(0xffffffffu, __float_as_uint(reach));
    uint32_t before = 0;
    if (threadIdx.x % 32 == 0) before = atomicMin(&bits, mine);
    return __uint_as_float(min(mine, __shfl_sync(0xffffffffu, before, 0)));
  }
};

/// The first quad of each thread is visited twice: before the others are, it says about what time
/// the first will arrive at.
__device__ inline void start_race(Runner& r, const Range& range, const Reach& reach) {
  if (threadIdx.x == 0) reach.bits = __float_as_uint(INFINITY);
  __syncthreads();
  const int q = range.first + static_cast<int>(threadIdx.x);
  const float4 x = range.at(q);
  const uint4 w = r.words(q);
  r.arrives(w.x, r.rate(x.x));
  r.arrives(w.y, r.rate(x.y));
  r.arrives(w.z, r.rate(x.z));
  r.arrives(w.w, r.rate(x.w));
  r.reach = reach.share(r.reach);
  __syncthreads();
}

template <bool kGreedy>
__device__ void take_all(Runner& r, const Range& range, const Reach& reach) {
  for (int start = range.first; start < range.end; start += kQuads * kPartThreads) {
    const int q = start + static_cast<int>(threadIdx.x);
    float4 x[kQuads];
#pragma unroll
    for (int i = 0; i < kQuads; ++i) x[i] = range.at(q + i * kPartThreads);
    if (!kGreedy) r.reach = reach.share(r.reach);
    unsigned close = 0;  // quads to be looked at
#pragma unroll
    for (int i = 0; i < kQuads; ++i) {
      if (q + i * kPartThreads >= range.end) continue;
      if (kGreedy) {
        r.take_greedily(q + i * kPartThreads, x[i]);
      } else if (r.skim(q + i * kPartThreads, x[i])) {
        close |= 1u << i;
      }
    }
    for (; close != 0; close &= close - 1) {
      const int again = q + (__ffs(static_cast<int>(close)) - 1) * kPartThreads;
      r.look_at(again, range.at(again));
    }
  }
  if (!kGreedy) reach.share(r.reach);
}

/// blockIdx: part, row. Rates refer to the largest of the range's first tokens; only where another
/// is so far above it that the sum overflows, all of it is done again.
template <bool kGreedy>
__global__ void __launch_bounds__(kPartThreads, kBlocksOfSm)
    part_kernel(int vocab, Part* parts, const float* logits, const int32_t* counters,
                DrawOptions options) {
  __shared__ uint32_t reach_s;
  const Reach reach{reach_s};
  const Range range(logits, vocab);
  const uint2 row_key = row_key_of(counters, blockIdx.y, options);
  int seen = min(range.end, range.first + kQuads * kPartThreads);
  Runner r(options, row_key, range.largest(seen));
  for (;;) {
    if (!kGreedy) start_race(r, range, reach);
    take_all<kGreedy>(r, range, reach);
    if (!__syncthreads_or(r.sum > 1e38f) || seen == range.end) break;
    seen = range.end;
    r = Runner(options, row_key, range.largest(seen));
  }
  if (!kGreedy) {
    r.reach = __uint_as_float(reach.bits);
    r.settle();
  }
  const double sum = block_sum(static_cast<double>(r.sum));
  const Best best = block_best(r.best);
  if (threadIdx.x != 0) return;
  parts[int64_t{blockIdx.y} * gridDim.x + blockIdx.x] = {sum, best, r.reference};
}

/// One warp a row.
__global__ void join_kernel(int vocab, int parts, int32_t* ids, float* log_prob, const Part* part,
                            const float* logits, DrawOptions options) {
  const int64_t row = blockIdx.x;
  const int lane = static_cast<int>(threadIdx.x);
  Part mine{0, {}, -INFINITY};
  if (lane < parts) mine = part[row * parts + lane];
  float reference = mine.reference;
  for (int offset = 16; offset > 0; offset /= 2) {
    reference = fmaxf(reference, __shfl_xor_sync(0xffffffffu, reference, offset));
  }
  double sum = lane < parts ? mine.sum * exp2(static_cast<double>(mine.reference) - reference) : 0;
  for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, offset);
  const Best best = warp_best(mine.best);
  if (lane != 0) return;
  const int token = best.token < vocab ? best.token : 0;  // where all logits are NaN
  ids[row] = token;
  // As it is in the sum, so that a token that is all of it has log-prob 0.
  const float down = fmaf(logits[row * vocab + token], Runner::log2_scale(options), -reference);
  const float rate = exp2_fast(down);
  const double z = rate > 1e-30f ? log2(static_cast<double>(rate)) : down;
  log_prob[row] = static_cast<float>(0.6931471805599453 * (z - log2(sum)));
}

bool cuts(int64_t vocab, const SamplingOptions& options) {
  return options.temperature > 0 &&
         ((options.top_k > 0 && options.top_k < vocab) || options.top_p < 1.0);
}

/// Blocks a row: as many as are on the whole GPU at one time, of a thousand quads at least.
int64_t parts_of(int64_t rows, int64_t vocab) {
  const int64_t most = std::min<int64_t>(kMostParts, (vocab + 4095) / 4096);
  return std::clamp<int64_t>(kBlocksOfSm * kSms / rows, 1, most);
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
