#pragma once

#include <cstdint>
#include <span>

#include "model/model_config.h"

// What work costs on paper. A multiply-add is two FLOPs; causal attention counts the visible pairs
// exactly; nothing that is computed twice (recomputation) counts twice.

namespace verlcpp::bench {

/// Measured limits of an H200: cuBLAS on 8192^3 bfloat16 random data reached 769-798 TFLOP/s, a
/// device copy 4.3 TB/s (read and written bytes together).
constexpr double kMatmulFlopsPerSecond = 790e12;
constexpr double kBytesPerSecond = 4.3e12;
/// NVLink's line rate between two GPUs of an H200 host, in each direction.
constexpr double kLinkBytesPerSecond = 450e9;

/// 2 M N K.
double matmul_flops(int64_t m, int64_t n, int64_t k);
/// Causal attention of documents: 4 N H sum s (s + 1) / 2.
double attention_flops(int64_t heads, int64_t head_dim, std::span<const int64_t> lengths);
/// The backward computes the scores again: 2.5 times the forward.
constexpr double kAttentionBackward = 2.5;

/// Parameters of the layers' matrices: L (2 D N H + 2 D K H + 3 D F).
double layer_matrix_parameters(const model::ModelConfig& config);
/// One forward over packed documents, the head on `head_rows` of the rows:
/// 2 N_layers T + 2 D V head_rows + L attention_flops.
double forward_flops(const model::ModelConfig& config, std::span<const int64_t> lengths,
                     int64_t head_rows);
/// Forward and backward: three times the forward.
double step_flops(const model::ModelConfig& config, std::span<const int64_t> lengths,
                  int64_t head_rows);

/// Bytes one decoding step has to read: all matrices once and `positions` cached K and V rows a
/// sequence, 2 K H L numbers each.
double decode_bytes(const model::ModelConfig& config, int64_t batch, double positions,
                    int64_t element_size);

// What moves between ranks. Messages count as NCCL-tests counts them: an all-reduce's tensor, a
// reduce-scatter's input, an all-gather's output, what one rank sends in an exchange.
enum class Movement { kAllReduce, kReduceScatter, kAllGather, kExchange };

/// Bytes that each of `members` has to send, and to receive, for a message of `bytes`: what
/// NCCL-tests' bus bandwidth counts. Of all_reduce 2 (n - 1) / n of them, of reduce_scatter and
/// all_gather (n - 1) / n, of an exchange around a ring all.
double bus_bytes(Movement movement, double bytes, int64_t members);
/// Bytes that `here` ranks of `ranks` in all read and write at least: each input once, each output
/// once. What an exchange sends is read by the receiver.
double rank_memory_bytes(Movement movement, double bytes, int64_t ranks, int64_t here);

}  // namespace verlcpp::bench
