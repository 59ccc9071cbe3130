#include <cuda_fp16.h>

#include "cuda/check.h"
#include "cuda/head_softmax.cuh"
#include "cuda/kernels.h"

namespace verlcpp::cuda {
namespace {

constexpr int kThreads = 512;

/// max z, sum of e^(z - max) and sum of e^(z - max) (z - max), as far as seen.
template <class V>
struct Softmax {
  V max = static_cast<V>(-INFINITY), sum = 0, weighted = 0;

  /// The same sums from a maximum that is not smaller.
  __device__ void move_to(V to) {
    if (max != static_cast<V>(-INFINITY) && max != to) {
      const V shift = max - to, scale = static_cast<V>(exp(shift));
      weighted = scale * (weighted + sum * shift);
      sum *= scale;
    }
    max = to;
  }
  __device__ void merge(Softmax other) {
    const V to = max > other.max ? max : other.max;
    move_to(to);
    other.move_to(to);
    sum += other.sum;
    weighted += other.weighted;
  }
};

/// The online softmax: one visit of the logits, sums moved whenever a group of values holds a new
/// maximum, which after the first few is rare.
template <int N>
__device__ void visit(Softmax<float>& s, const float (&z)[N]) {
  float max = z[0];
#pragma unroll
  for (int i = 1; i < N; ++i) max = fmaxf(max, z[i]);
  if (max > s.max) s.move_to(max);
  if (s.max == -INFINITY) return;
#pragma unroll
  for (int i = 0; i < N; ++i) {
    const float shifted = z[i] - s.max, e = exp_of(shifted);
    s.sum += e;
    if (e != 0.0f) s.weighted += e * shifted;  // 0 * -inf counts as 0
  }
}

__device__ inline Softmax<double> block_merge(Softmax<double> mine) {
  __shared__ Softmax<double> shared[kThreads / 32];
  for (int offset = 16; offset > 0; offset /= 2) {
    mine.merge({.max = __shfl_xor_sync(0xffffffffu, mine.max, offset),
                .sum = __shfl_xor_sync(0xffffffffu, mine.sum, offset),
                .weighted = __shfl_xor_sync(0xffffffffu, mine.weighted, offset)});
  }
  if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = mine;
  __syncthreads();
  Softmax<double> all;
  for (const Softmax<double>& part : shared) all.merge(part);
  return all;
}

/// One block a row. `vector`: rows begin at multiples of 16 bytes.
__global__ void __launch_bounds__(kThreads)
    logit_stats_kernel(int64_t vocab, int64_t first, double* stats, const float* logits,
                       const int32_t* labels, const float* temperature, bool vector) {
  const int64_t r = blockIdx.x;
  const float* row = logits + r * vocab;
  const float tau = safe_temperature(temperature[r]);
  Softmax<float> mine;
  if (vector) {
    constexpr int kAhead = 4;  // loads under way at a time
    const auto* quads = reinterpret_cast<const float4*>(row);
    const int64_t count = vocab / 4;
    int64_t v = threadIdx.x;
    for (; v + (kAhead - 1) * kThreads < count; v += kAhead * kThreads) {
      float z[4 * kAhead];
#pragma unroll
      for (int i = 0; i < kAhead; ++i) {
        const float4 q = __ldcs(quads + v + i * kThreads);
        z[4 * i] = q.x / tau, z[4 * i + 1] = q.y / tau;
        z[4 * i + 2] = q.z / tau, z[4 * i + 3] = q.w / tau;
      }
      visit(mine, z);
    }
    for (; v < count; v += kThreads) {
      const float4 q = __ldcs(quads + v);
      visit(mine, {q.x / tau, q.y / tau, q.z / tau, q.w / tau});
    }
  } else {
    for (int64_t v = threadIdx.x; v < vocab; v += kThreads) visit(mine, {row[v] / tau});
  }
  const Softmax<double> all =
      block_merge({.max = mine.max, .sum = mine.sum, .weighted = mine.weighted});
  if (threadIdx.x != 0) return;
  const int64_t label = labels[r] - first;
  stats[r * 4] = all.max;
  stats[r * 4 + 1] = all.sum;
  stats[r * 4 + 2] = all.weighted;
  stats[r * 4 + 3] =
      label >= 0 && label < vocab ? static_cast<double>(row[label] / tau) : -HUGE_VAL;
}

__global__ void token_log_prob_kernel(int64_t rows, int64_t parts, float* log_prob, float* entropy,
                                      float* lse, const double* stats) {
  const int64_t r = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (r >= rows) return;
  const RowStats all = merged(rows, parts, r, stats);
  const double log_sum = log(all.sum);
  lse[r] = static_cast<float>(all.max + log_sum);
  log_prob[r] = static_cast<float>((all.label - all.max) - log_sum);
  entropy[r] = static_cast<float>(log_sum - all.weighted / all.sum);
}

constexpr int kGroup = static_cast<int>(kKeptGroup);

/// A warp for each group of columns of a row.
__global__ void keep_logits_kernel(int64_t vocab, __half* values, float* shift, const float* logits,
                                   const float* temperature) {
  const int64_t r = blockIdx.y, groups = gridDim.x, first = int64_t{blockIdx.x} * kGroup;
  const float scale = kLog2e / safe_temperature(temperature[r]);
  const float* from = logits + r * vocab + first;
  const int columns = static_cast<int>(min(int64_t{kGroup}, vocab - first));
  float largest = -INFINITY;
  for (int v = threadIdx.x; v < columns; v += 32) largest = fmaxf(largest, from[v] * scale);
  for (int offset = 16; offset > 0; offset /= 2) {
    largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, offset));
  }
  for (int v = threadIdx.x; v < columns; v += 32) {
    values[r * vocab + first + v] = __float2half(from[v] * scale - largest);
  }
  if (threadIdx.x == 0) shift[r * groups + blockIdx.x] = largest;
}

}  // namespace

void logit_stats(cudaStream_t stream, int64_t rows, int64_t vocab, int64_t first, double* stats,
                 const float* logits, const int32_t* labels, const float* temperature) {
  if (rows == 0) return;
  logit_stats_kernel<<<static_cast<unsigned>(rows), kThreads, 0, stream>>>(
      vocab, first, stats, logits, labels, temperature, in_fours(logits, vocab));
  check_launch("logit_stats");
}

void token_log_prob(cudaStream_t stream, int64_t rows, int64_t parts, float* log_prob,
                    float* entropy, float* lse, const double* stats) {
  if (rows == 0) return;
  token_log_prob_kernel<<<grid_for(rows, 128), 128, 0, stream>>>(rows, parts, log_prob, entropy,
                                                                 lse, stats);
  check_launch("token_log_prob");
}

void keep_logits(cudaStream_t stream, int64_t rows, int64_t vocab, void* values, float* shift,
                 const float* logits, const float* temperature) {
  constexpr int64_t kMostRows = 65535;  // of a grid
  const auto groups = static_cast<unsigned>(kept_groups(vocab));
  for (int64_t first = 0; first < rows; first += kMostRows) {
    const dim3 grid(groups, static_cast<unsigned>(std::min(kMostRows, rows - first)));
    keep_logits_kernel<<<grid, 32, 0, stream>>>(vocab, static_cast<__half*>(values) + first * vocab,
                                                shift + first * groups, logits + first * vocab,
                                                temperature + first);
    check_launch("keep_logits");
  }
}

}  // namespace verlcpp::cuda
