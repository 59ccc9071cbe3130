#pragma once

#include <cstdint>
#include <vector>

#include "data/packed_batch.h"
#include "tensor/backend.h"

// What both kinds of context-parallel attention are made of. Zigzag layout: with half = padded
// length / (2 cp), member m of a group holds positions [m half, (m+1) half) and
// [(2cp-1-m) half, (2cp-m) half) of every document.

namespace verlcpp::model {

/// Dtype of norm statistics, LSE, log-probs and of partial attention results: at least float32.
DType statistics_dtype(DType dtype);

/// Real rows of one document in the two chunks of a member of the group.
struct ChunkRows {
  int32_t first = 0, second = 0;
  int32_t total() const { return first + second; }
};
ChunkRows chunk_rows(int64_t length, int64_t padded, int64_t cp, int64_t member);

/// AttentionSpans on the host.
struct HostSpans {
  std::vector<int32_t> q_offset, q_length, kv_offset, kv_length;
  /// A document where one side is empty has nothing to compute: both lengths become zero.
  void append(int32_t q_first, int32_t q_rows, int32_t kv_first, int32_t kv_rows);
  bool has_rows() const;
};

/// One block of attention of a micro-batch: local q rows against `kv_rows` rows of K and V, local,
/// received or gathered. The first block of a micro-batch is always computed, for it writes every
/// row; the others where some document has rows in it.
struct HostBlock {
  AttentionMask mask = AttentionMask::kCausal;
  HostSpans spans;
  int64_t kv_rows = 0;
  bool computed = true;
};
/// The same on the device.
struct AttentionBlock {
  AttentionMask mask = AttentionMask::kCausal;
  AttentionSpans spans;
  bool computed = true;
};
/// The blocks of either way over a CP group, in order (context_parallel_ring.cpp,
/// context_parallel_all_gather.cpp).
std::vector<HostBlock> ring_blocks(const data::PackedBatch& batch);
std::vector<HostBlock> gather_blocks(const data::PackedBatch& batch);
AttentionBlock upload_block(Backend& backend, const HostBlock& host);

/// `x` itself when it can hold partial sums, else a wider tensor of its shape.
Tensor accumulator(Backend& backend, const Tensor& x);
/// Brings an accumulator's values home.
void store(Backend& backend, const Tensor& x, const Tensor& accumulated);

}  // namespace verlcpp::model
