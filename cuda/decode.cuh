#pragma once

#include "cuda/device.cuh"
#include "cuda/kernels.h"

// What the two kernels of decode attention share.

namespace verlcpp::cuda {

/// Cache row of a position.
__device__ inline int64_t row_of(const DecodeArgs& a, int sequence, int position) {
  const int block = static_cast<int>(a.block);
  const int32_t* table = a.tables + sequence * a.blocks_per_sequence;
  return int64_t{table[position / block]} * block + position % block;
}

/// The new token's k and v of one kv head into the cache.
template <class T>
__device__ inline void write_new(const DecodeArgs& a, int sequence, int position, int kv_head,
                                 int thread, int threads) {
  const int head_dim = static_cast<int>(a.head_dim);
  const int64_t from = (sequence * a.kv_heads + kv_head) * head_dim;
  const int64_t to = (row_of(a, sequence, position) * a.kv_heads + kv_head) * head_dim;
  for (int d = thread; d < head_dim; d += threads) {
    static_cast<T*>(a.cache_k)[to + d] = static_cast<const T*>(a.k)[from + d];
    static_cast<T*>(a.cache_v)[to + d] = static_cast<const T*>(a.v)[from + d];
  }
}

/// Any head dim up to 256, in float32 and bfloat16.
void decode_attention_plain(cudaStream_t stream, DType dtype, const DecodeArgs& args);

}  // namespace verlcpp::cuda
