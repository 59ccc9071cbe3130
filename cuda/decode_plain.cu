#include <cmath>

#include "cuda/check.h"
#include "cuda/decode.cuh"
#include "tensor/cuda_limits.h"

// Decode attention of any head dim up to 256: one thread block a (head, sequence), whose warps
// share the positions. And the step to the next token.

namespace verlcpp::cuda {
namespace {

constexpr int kWarps = 8;
constexpr int kMostPerLane = kLargestCudaHeadDim / 32;  // elements of a head

template <class T>
__global__ void plain_kernel(DecodeArgs a) {
  __shared__ float max_s[kWarps], sum_s[kWarps], o_s[kWarps][32 * kMostPerLane];
  const int head = static_cast<int>(blockIdx.x), sequence = static_cast<int>(blockIdx.y);
  const int lane = static_cast<int>(threadIdx.x), warp = static_cast<int>(threadIdx.y);
  const int head_dim = static_cast<int>(a.head_dim), position = a.positions[sequence];
  const int group = static_cast<int>(a.heads / a.kv_heads), kv_head = head / group;
  const int64_t q_at = (sequence * a.heads + head) * head_dim;
  const int64_t fresh = (sequence * a.kv_heads + kv_head) * head_dim;
  if (position >= 0 && head % group == 0) {
    write_new<T>(a, sequence, position, kv_head, warp * 32 + lane, 32 * kWarps);
  }
  float mine[kMostPerLane], sum[kMostPerLane] = {}, max = -INFINITY, total = 0;
#pragma unroll
  for (int x = 0; x < kMostPerLane; ++x) {
    const int d = lane + 32 * x;
    mine[x] = d < head_dim ? to_float(static_cast<const T*>(a.q)[q_at + d]) : 0.0f;
  }
  for (int j = warp; j <= position; j += kWarps) {
    const bool own = j == position;
    const int64_t at = own ? fresh : (row_of(a, sequence, j) * a.kv_heads + kv_head) * head_dim;
    const T* k = static_cast<const T*>(own ? a.k : a.cache_k) + at;
    const T* v = static_cast<const T*>(own ? a.v : a.cache_v) + at;
    float product = 0;
#pragma unroll
    for (int x = 0; x < kMostPerLane; ++x) {
      const int d = lane + 32 * x;
      if (d < head_dim) product += mine[x] * to_float(k[d]);
    }
    const float score = a.scale * warp_sum(product), new_max = fmaxf(max, score);
    const float keep = expf(max - new_max), p = expf(score - new_max);
    total = total * keep + p;
    max = new_max;
#pragma unroll
    for (int x = 0; x < kMostPerLane; ++x) {
      const int d = lane + 32 * x;
      if (d < head_dim) sum[x] = sum[x] * keep + p * to_float(v[d]);
    }
  }
#pragma unroll
  for (int x = 0; x < kMostPerLane; ++x) o_s[warp][lane + 32 * x] = sum[x];
  if (lane == 0) {
    max_s[warp] = max;
    sum_s[warp] = total;
  }
  __syncthreads();
  const int d = warp * 32 + lane;
  if (d >= head_dim) return;
  float all = 0, o = 0;
  max = -INFINITY;
  for (int w = 0; w < kWarps; ++w) max = fmaxf(max, max_s[w]);
  for (int w = 0; w < kWarps; ++w) {
    if (sum_s[w] == 0) continue;
    const float weight = expf(max_s[w] - max);
    all += weight * sum_s[w];
    o += weight * o_s[w][d];
  }
  static_cast<T*>(a.o)[q_at + d] = from_float<T>(all > 0 ? o / all : 0.0f);
}

__global__ void advance_kernel(int64_t sequences, int32_t* positions, int32_t* counters) {
  const int64_t b = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (b >= sequences || positions[b] < 0) return;
  ++positions[b];
  ++counters[4 * b + 3];
}

}  // namespace

void decode_attention_plain(cudaStream_t stream, DType dtype, const DecodeArgs& args) {
  expects(args.head_dim <= kLargestCudaHeadDim, "attention: the head dim is too large");
  const dim3 grid(static_cast<unsigned>(args.heads), static_cast<unsigned>(args.sequences));
  dispatch(dtype, [&]<class T>() { plain_kernel<T><<<grid, dim3(32, kWarps), 0, stream>>>(args); });
  check_launch("decode_attention");
}

void advance_sequences(cudaStream_t stream, int64_t sequences, int32_t* positions,
                       int32_t* counters) {
  if (sequences == 0) return;
  advance_kernel<<<grid_for(sequences, 128), 128, 0, stream>>>(sequences, positions, counters);
  check_launch("advance_sequences");
}

}  // namespace verlcpp::cuda
