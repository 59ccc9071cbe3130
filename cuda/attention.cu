#include <cmath>

#include "cuda/check.h"
#include "cuda/device.cuh"
#include "cuda/kernels.h"
#include "tensor/cuda_limits.h"

// Plain attention for any head dim up to 256: one warp a (row, head) walks over the other side's
// rows with an online softmax (Milakov & Gimelshein 2018). Right in float32, the judge of faster
// kernels; without atomics, so that it repeats bit for bit.

namespace verlcpp::cuda {
namespace {

constexpr int kWarps = 4;
constexpr int kMostPerLane = kLargestCudaHeadDim / 32;  // elements of a head

/// Leading kv rows that q row `i` of a document sees.
__device__ inline int visible_rows(AttentionMask mask, int i, int q_length, int kv_length) {
  if (mask == AttentionMask::kNone) return kv_length;
  const int limit = mask == AttentionMask::kCausal ? i + 1 : i + 1 + kv_length - q_length;
  return max(0, min(limit, kv_length));
}

/// First q row of a document that sees kv row `j`.
__device__ inline int first_row(AttentionMask mask, int j, int q_length, int kv_length) {
  if (mask == AttentionMask::kNone) return 0;
  return max(0, mask == AttentionMask::kCausal ? j : j - kv_length + q_length);
}

template <class T>
__device__ inline void load(float* out, const T* x, int head_dim, int lane) {
#pragma unroll
  for (int k = 0; k < kMostPerLane; ++k) {
    const int d = lane + 32 * k;
    out[k] = d < head_dim ? to_float(x[d]) : 0.0f;
  }
}

template <class T>
__device__ inline float dot(const float* a, const T* b, int head_dim, int lane) {
  float sum = 0;
#pragma unroll
  for (int k = 0; k < kMostPerLane; ++k) {
    const int d = lane + 32 * k;
    if (d < head_dim) sum += a[k] * to_float(b[d]);
  }
  return warp_sum(sum);
}

template <class G>
__device__ inline void add_in(G* x, float value) {
  *x = from_float<G>(to_float(*x) + value);
}

template <class T, class O>
__global__ void forward_kernel(AttentionArgs a, const T* q, const T* k, const T* v, O* o,
                               float* lse) {
  const int document = blockIdx.y, head = blockIdx.z, lane = threadIdx.x;
  const int i = blockIdx.x * kWarps + threadIdx.y, q_length = a.q_length[document];
  if (i >= q_length) return;
  const int head_dim = static_cast<int>(a.head_dim);
  const int64_t kv_head = head / (a.heads / a.kv_heads);
  const int64_t row = (a.q_offset[document] + i) * a.heads + head;
  const int kv_length = a.kv_length[document];
  const int64_t kv_row = a.kv_offset[document];
  const int visible = visible_rows(a.mask, i, q_length, kv_length);
  if (visible == 0) return;  // stays 0, -inf

  float mine[kMostPerLane], sum[kMostPerLane] = {};
  load(mine, q + row * head_dim, head_dim, lane);
  float max = -INFINITY, total = 0;
  for (int j = 0; j < visible; ++j) {
    const int64_t other = ((kv_row + j) * a.kv_heads + kv_head) * head_dim;
    const float score = a.scale * dot(mine, k + other, head_dim, lane);
    const float new_max = fmaxf(max, score);
    const float keep = expf(max - new_max), p = expf(score - new_max);
    total = total * keep + p;
    max = new_max;
#pragma unroll
    for (int x = 0; x < kMostPerLane; ++x) {
      const int d = lane + 32 * x;
      if (d < head_dim) sum[x] = sum[x] * keep + p * to_float(v[other + d]);
    }
  }
#pragma unroll
  for (int x = 0; x < kMostPerLane; ++x) {
    const int d = lane + 32 * x;
    if (d < head_dim) o[row * head_dim + d] = from_float<O>(sum[x] / total);
  }
  if (lane == 0) lse[row] = max + logf(total);
}

/// d_q of one (row, head), added.
template <class T, class G>
__global__ void backward_q_kernel(AttentionArgs a, const T* q, const T* k, const T* v,
                                  const float* lse, const float* delta, const T* d_o, G* d_q) {
  const int document = blockIdx.y, head = blockIdx.z, lane = threadIdx.x;
  const int i = blockIdx.x * kWarps + threadIdx.y, q_length = a.q_length[document];
  if (i >= q_length) return;
  const int head_dim = static_cast<int>(a.head_dim);
  const int64_t kv_head = head / (a.heads / a.kv_heads);
  const int64_t row = (a.q_offset[document] + i) * a.heads + head;
  const int64_t kv_row = a.kv_offset[document];
  const int visible = visible_rows(a.mask, i, q_length, a.kv_length[document]);
  if (visible == 0 || lse[row] == -INFINITY) return;

  float mine[kMostPerLane], d_mine[kMostPerLane], sum[kMostPerLane] = {};
  load(mine, q + row * head_dim, head_dim, lane);
  load(d_mine, d_o + row * head_dim, head_dim, lane);
  for (int j = 0; j < visible; ++j) {
    const int64_t other = ((kv_row + j) * a.kv_heads + kv_head) * head_dim;
    const float p = expf(a.scale * dot(mine, k + other, head_dim, lane) - lse[row]);
    const float d_score = p * (dot(d_mine, v + other, head_dim, lane) - delta[row]) * a.scale;
#pragma unroll
    for (int x = 0; x < kMostPerLane; ++x) {
      const int d = lane + 32 * x;
      if (d < head_dim) sum[x] += d_score * to_float(k[other + d]);
    }
  }
#pragma unroll
  for (int x = 0; x < kMostPerLane; ++x) {
    const int d = lane + 32 * x;
    if (d < head_dim) add_in(d_q + row * head_dim + d, sum[x]);
  }
}

/// d_k and d_v of one (kv row, kv head), over the query heads that share it and the rows that see
/// it, added.
template <class T, class G>
__global__ void backward_kv_kernel(AttentionArgs a, const T* q, const T* k, const T* v,
                                   const float* lse, const float* delta, const T* d_o, G* d_k,
                                   G* d_v) {
  const int document = blockIdx.y, kv_head = blockIdx.z, lane = threadIdx.x;
  const int j = blockIdx.x * kWarps + threadIdx.y, kv_length = a.kv_length[document];
  if (j >= kv_length) return;
  const int head_dim = static_cast<int>(a.head_dim), q_length = a.q_length[document];
  const int64_t row = (a.kv_offset[document] + j) * a.kv_heads + kv_head;
  const int group = static_cast<int>(a.heads / a.kv_heads);

  float k_mine[kMostPerLane], v_mine[kMostPerLane];
  float k_sum[kMostPerLane] = {}, v_sum[kMostPerLane] = {};
  load(k_mine, k + row * head_dim, head_dim, lane);
  load(v_mine, v + row * head_dim, head_dim, lane);
  for (int i = first_row(a.mask, j, q_length, kv_length); i < q_length; ++i) {
    for (int g = 0; g < group; ++g) {
      const int64_t other = (a.q_offset[document] + i) * a.heads + kv_head * group + g;
      if (lse[other] == -INFINITY) continue;
      const T *q_row = q + other * head_dim, *d_o_row = d_o + other * head_dim;
      const float p = expf(a.scale * dot(k_mine, q_row, head_dim, lane) - lse[other]);
      const float d_score = p * (dot(v_mine, d_o_row, head_dim, lane) - delta[other]) * a.scale;
#pragma unroll
      for (int x = 0; x < kMostPerLane; ++x) {
        const int d = lane + 32 * x;
        if (d >= head_dim) continue;
        k_sum[x] += d_score * to_float(q_row[d]);
        v_sum[x] += p * to_float(d_o_row[d]);
      }
    }
  }
#pragma unroll
  for (int x = 0; x < kMostPerLane; ++x) {
    const int d = lane + 32 * x;
    if (d >= head_dim) continue;
    add_in(d_k + row * head_dim + d, k_sum[x]);
    add_in(d_v + row * head_dim + d, v_sum[x]);
  }
}

__global__ void merge_kernel(int64_t rows, int64_t head_dim, float* o, float* lse,
                             const float* o_part, const float* lse_part) {
  const int64_t row = int64_t{blockIdx.x} * kWarps + threadIdx.y;
  if (row >= rows) return;
  const float mine = lse[row], other = lse_part[row];
  if (other == -INFINITY) return;
  const float max = fmaxf(mine, other);
  const float both = max + logf(expf(mine - max) + expf(other - max));
  const float keep = expf(mine - both), take = expf(other - both);
  for (int64_t d = threadIdx.x; d < head_dim; d += 32) {
    const int64_t at = row * head_dim + d;
    o[at] = o[at] * keep + o_part[at] * take;
  }
  __syncwarp();
  if (threadIdx.x == 0) lse[row] = both;
}

template <class T>
__global__ void delta_kernel(int64_t rows, int64_t head_dim, float* delta, const T* d_o,
                             const T* o) {
  const int64_t row = int64_t{blockIdx.x} * kWarps + threadIdx.y;
  if (row >= rows) return;
  float sum = 0;
  for (int64_t d = threadIdx.x; d < head_dim; d += 32) {
    sum += to_float(d_o[row * head_dim + d]) * to_float(o[row * head_dim + d]);
  }
  sum = warp_sum(sum);
  if (threadIdx.x == 0) delta[row] = sum;
}

dim3 grid_of(int64_t longest, int64_t documents, int64_t heads) {
  return {grid_for(longest, kWarps), static_cast<unsigned>(documents),
          static_cast<unsigned>(heads)};
}

}  // namespace

void attention_block(cudaStream_t stream, DType dtype, const AttentionArgs& args, void* o,
                     DType o_dtype, float* lse) {
  expects(args.head_dim <= kLargestCudaHeadDim, "attention: the head dim is too large");
  const int64_t rows = args.q_rows * args.heads;
  if (rows == 0) return;
  // Rows in no span, or without a visible row: 0 and -inf.
  check(cudaMemsetAsync(o, 0, static_cast<size_t>(rows * args.head_dim * size_of(o_dtype)), stream),
        "attention");
  fill(stream, rows, lse, -INFINITY);
  if (args.documents == 0 || args.max_q_length == 0) return;
  const dim3 grid = grid_of(args.max_q_length, args.documents, args.heads);
  dispatch(dtype, [&]<class T>() {
    dispatch(o_dtype, [&]<class O>() {
      forward_kernel<<<grid, dim3(32, kWarps), 0, stream>>>(
          args, static_cast<const T*>(args.q), static_cast<const T*>(args.k),
          static_cast<const T*>(args.v), static_cast<O*>(o), lse);
    });
  });
  check_launch("attention_block");
}

void attention_block_backward(cudaStream_t stream, DType dtype, const AttentionArgs& args,
                              const void* o, const float* lse, const void* d_o, float* delta,
                              DType grad_dtype, void* d_q, void* d_k, void* d_v) {
  expects(args.head_dim <= kLargestCudaHeadDim, "attention: the head dim is too large");
  if (args.documents == 0 || args.max_q_length == 0 || args.max_kv_length == 0) return;
  const int64_t rows = args.q_rows * args.heads;
  const dim3 block(32, kWarps);
  dispatch(dtype, [&]<class T>() {
    const auto *q = static_cast<const T*>(args.q), *k = static_cast<const T*>(args.k);
    const auto *v = static_cast<const T*>(args.v), *d = static_cast<const T*>(d_o);
    delta_kernel<<<grid_for(rows, kWarps), block, 0, stream>>>(rows, args.head_dim, delta, d,
                                                               static_cast<const T*>(o));
    dispatch(grad_dtype, [&]<class G>() {
      backward_q_kernel<<<grid_of(args.max_q_length, args.documents, args.heads), block, 0,
                          stream>>>(args, q, k, v, lse, delta, d, static_cast<G*>(d_q));
      backward_kv_kernel<<<grid_of(args.max_kv_length, args.documents, args.kv_heads), block, 0,
                           stream>>>(args, q, k, v, lse, delta, d, static_cast<G*>(d_k),
                                     static_cast<G*>(d_v));
    });
  });
  check_launch("attention_block_backward");
}

void attention_merge(cudaStream_t stream, int64_t rows, int64_t head_dim, float* o, float* lse,
                     const float* o_part, const float* lse_part) {
  if (rows == 0) return;
  merge_kernel<<<grid_for(rows, kWarps), dim3(32, kWarps), 0, stream>>>(rows, head_dim, o, lse,
                                                                        o_part, lse_part);
  check_launch("attention_merge");
}

}  // namespace verlcpp::cuda
