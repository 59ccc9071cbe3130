#include <cuda_fp16.h>

#include "cuda/check.h"
#include "cuda/head_softmax.cuh"
#include "cuda/kernels.h"

// From the gradients of log-probs and entropies to those of the logits.

namespace verlcpp::cuda {
namespace {

constexpr int kThreads = 512, kGroup = static_cast<int>(kKeptGroup);

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
    return gradient(log2_p * static_cast<float>(kLn2), exp2f(log2_p), is_label);
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

/// Columns of a row for one block: a head's chunk of some hundred rows would fill a GPU but once
/// and a half with a block a row.
constexpr int kColumns = kThreads * 32;

/// The same from kept values, which may be d_logits too, for the blockIdx.y-th kColumns of a row.
/// `vector`: rows of both begin at multiples of eight elements, so that a thread's eight, 16 bytes,
/// are of one group.
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
  const int64_t first = int64_t{blockIdx.y} * kColumns, end = min(first + kColumns, vocab);
  if (!vector) {
    for (int64_t v = first + threadIdx.x; v < end; v += kThreads) {
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
  const int last = static_cast<int>(end / kWidth);
#pragma unroll 2
  for (int v = static_cast<int>(first / kWidth + threadIdx.x); v < last; v += kThreads) {
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

}  // namespace

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
  if (head.rows * head.vocab == 0) return;
  dispatch(dtype, [&]<class T>() {
    const dim3 grid(static_cast<unsigned>(head.rows), grid_for(head.vocab, kColumns));
    kept_log_prob_backward_kernel<<<grid, kThreads, 0, stream>>>(
        head, static_cast<T*>(d_logits), static_cast<const __half*>(values), shift,
        in_sixteens(head.vocab * int64_t{sizeof(__half)}, {d_logits, values}) &&
            head.vocab < int64_t{1} << 31);
  });
  check_launch("kept_log_prob_backward");
}

}  // namespace verlcpp::cuda
