#include <cuda_fp16.h>

#include "cuda/check.h"
#include "cuda/device.cuh"
#include "cuda/kernels.h"

namespace verlcpp::cuda {
namespace {

constexpr int kThreads = 512;
constexpr double kInf = HUGE_VAL;

/// verl's floor, so that temperature 0 means (nearly) greedy instead of a division by zero.
__device__ inline float safe_temperature(float t) { return t > 0.0f ? t : 1e-8f; }

constexpr float kLog2e = 1.44269504f;
/// e^x as 2^(x log2 e), for x <= 0: its relative error grows with -x, while e^x shrinks much
/// faster.
__device__ inline float exp_of(float x) { return exp2f(x * kLog2e); }

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
  stats[r * 4 + 3] = label >= 0 && label < vocab ? static_cast<double>(row[label] / tau) : -kInf;
}

__global__ void token_log_prob_kernel(int64_t rows, int64_t parts, float* log_prob, float* entropy,
                                      float* lse, const double* stats) {
  const int64_t r = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (r >= rows) return;
  double max = -kInf, label = -kInf, sum = 0, weighted = 0;
  for (int64_t p = 0; p < parts; ++p) {
    const double* s = stats + (p * rows + r) * 4;
    max = fmax(max, s[0]);
    label = fmax(label, s[3]);
  }
  for (int64_t p = 0; p < parts; ++p) {
    const double* s = stats + (p * rows + r) * 4;
    if (s[0] == -kInf) continue;
    const double shift = s[0] - max, scale = exp(shift);
    sum += scale * s[1];
    weighted += scale * (s[2] + s[1] * shift);
  }
  const double log_sum = log(sum);
  lse[r] = static_cast<float>(max + log_sum);
  log_prob[r] = static_cast<float>((label - max) - log_sum);
  entropy[r] = static_cast<float>(log_sum - weighted / sum);
}

constexpr int kGroup = static_cast<int>(kKeptGroup);
constexpr float kLn2 = 0.693147181f;

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

/// What the backward of one row needs.
struct HeadRow {
  float tau, lse, entropy, d_log_prob, d_entropy;  // the gradients over the temperature
  int64_t label;                                   // in this part's columns

  __device__ HeadRow(const HeadGradient& head, int64_t r)
      : tau(safe_temperature(head.temperature[r])),
        lse(head.lse[r]),
        entropy(head.entropy[r]),
        d_log_prob(head.d_log_prob[r] / tau),
        d_entropy(head.d_entropy[r] / tau),
        label(head.labels[r] - head.first) {}
  /// By log p and p.
  __device__ float gradient(float log_p, float p, bool is_label) const {
    const float d = p == 0.0f ? 0.0f : -p * (d_log_prob + d_entropy * (log_p + entropy));
    return is_label ? d + d_log_prob : d;
  }
  __device__ float of_logit(float logit, bool is_label) const {
    const float log_p = logit / tau - lse;
    return gradient(log_p, exp_of(log_p), is_label);
  }
  /// By log2 p.
  __device__ float of_kept(float log2_p, bool is_label) const {
    return gradient(log2_p * kLn2, exp2f(log2_p), is_label);
  }
};

template <class T>
struct alignas(4 * sizeof(T)) Four {
  T x[4];
};

/// One block a row. d_logits may be logits themselves: each element is read, then written, by one
/// thread. `vector`: rows of both begin at multiples of four elements.
template <class T>
__global__ void __launch_bounds__(kThreads)
    token_log_prob_backward_kernel(HeadGradient head, T* d_logits, const float* logits,
                                   bool vector) {
  const int64_t r = blockIdx.x;
  const float* from = logits + r * head.vocab;
  T* to = d_logits + r * head.vocab;
  const HeadRow row(head, r);
  if (!vector) {
    for (int64_t v = threadIdx.x; v < head.vocab; v += kThreads) {
      to[v] = from_float<T>(row.of_logit(from[v], v == row.label));
    }
    return;
  }
  const auto* quads = reinterpret_cast<const float4*>(from);
  auto* d_quads = reinterpret_cast<Four<T>*>(to);
#pragma unroll 4
  for (int64_t v = threadIdx.x; v < head.vocab / 4; v += kThreads) {
    const float4 q = __ldcs(quads + v);
    Four<T> d;
    d.x[0] = from_float<T>(row.of_logit(q.x, 4 * v == row.label));
    d.x[1] = from_float<T>(row.of_logit(q.y, 4 * v + 1 == row.label));
    d.x[2] = from_float<T>(row.of_logit(q.z, 4 * v + 2 == row.label));
    d.x[3] = from_float<T>(row.of_logit(q.w, 4 * v + 3 == row.label));
    d_quads[v] = d;
  }
}

/// The same from kept values, which may be d_logits too. `vector`: rows of both begin at multiples
/// of eight elements, so that a thread's eight, 16 bytes, are of one group.
template <class T>
__global__ void __launch_bounds__(kThreads)
    kept_log_prob_backward_kernel(HeadGradient head, T* d_logits, const __half* values,
                                  const float* shift, bool vector) {
  constexpr int kWidth = 8;
  const int64_t r = blockIdx.x, vocab = head.vocab;
  const __half* from = values + r * vocab;
  const float* shifts = shift + r * ((vocab + kGroup - 1) / kGroup);
  T* to = d_logits + r * vocab;
  const HeadRow row(head, r);
  const float log2_sum = row.lse * kLog2e;
  if (!vector) {
    for (int64_t v = threadIdx.x; v < vocab; v += kThreads) {
      const float down = shifts[v / kGroup] - log2_sum;
      to[v] = from_float<T>(row.of_kept(__half2float(from[v]) + down, v == row.label));
    }
    return;
  }
  struct alignas(16) Halves {
    __half2 pairs[kWidth / 2];
  };
  struct alignas(sizeof(T) * kWidth) Gradients {
    T x[kWidth];
  };
  const auto* packs = reinterpret_cast<const Halves*>(from);
  auto* d_packs = reinterpret_cast<Gradients*>(to);
#pragma unroll 2
  for (int v = threadIdx.x; v < static_cast<int>(vocab / kWidth); v += kThreads) {
    const Halves z = packs[v];
    const float down = shifts[v / (kGroup / kWidth)] - log2_sum;
    const int64_t label = row.label - int64_t{v} * kWidth;
    Gradients d;
#pragma unroll
    for (int e = 0; e < kWidth; e += 2) {
      const float2 pair = __half22float2(z.pairs[e / 2]);
      d.x[e] = from_float<T>(row.of_kept(pair.x + down, label == e));
      d.x[e + 1] = from_float<T>(row.of_kept(pair.y + down, label == e + 1));
    }
    d_packs[v] = d;
  }
}

/// Whether rows of `vocab` elements can be taken four at a time.
template <class T>
bool in_fours(const T* data, int64_t vocab) {
  return vocab % 4 == 0 && reinterpret_cast<uintptr_t>(data) % (4 * sizeof(T)) == 0;
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

void token_log_prob_backward(cudaStream_t stream, DType dtype, const HeadGradient& head,
                             void* d_logits, const float* logits) {
  if (head.rows == 0) return;
  dispatch(dtype, [&]<class T>() {
    auto* to = static_cast<T*>(d_logits);
    token_log_prob_backward_kernel<<<static_cast<unsigned>(head.rows), kThreads, 0, stream>>>(
        head, to, logits,
        in_fours(logits, head.vocab) && in_fours(static_cast<const T*>(to), head.vocab));
  });
  check_launch("token_log_prob_backward");
}

void kept_log_prob_backward(cudaStream_t stream, DType dtype, const HeadGradient& head,
                            void* d_logits, const void* values, const float* shift) {
  if (head.rows == 0) return;
  dispatch(dtype, [&]<class T>() {
    kept_log_prob_backward_kernel<<<static_cast<unsigned>(head.rows), kThreads, 0, stream>>>(
        head, static_cast<T*>(d_logits), static_cast<const __half*>(values), shift,
        in_sixteens(head.vocab * int64_t{sizeof(__half)}, {d_logits, values}) &&
            head.vocab < int64_t{1} << 31);
  });
  check_launch("kept_log_prob_backward");
}

}  // namespace verlcpp::cuda
