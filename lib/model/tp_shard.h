#pragma once

#include <cstdint>
#include <string>

#include "model/model_config.h"

namespace verlcpp::model {

/// A rank's place on the tensor-parallel axis, and how activations between the parallel regions lie
/// there: with sequence parallelism each rank holds 1/size of the packed rows, else all of them.
struct TpPlace {
  int64_t size = 1, rank = 0;
  bool sequence_parallel = false;
};

/// What of a model one TP rank holds (Megatron-LM, Shoeybi et al. 2019): query heads and ffn
/// columns in equal parts; the vocabulary in parts that differ by at most one row; kv heads in
/// equal parts or, when there are fewer of them than ranks, one that `kv_replicas` neighbours
/// share.
struct TpShard {
  int64_t heads = 0, kv_heads = 0, ffn = 0, vocab = 0;  // of this rank
  int64_t first_head = 0, first_kv_head = 0, first_ffn = 0, first_token = 0;
  int64_t kv_replicas = 1;
};

/// Expects `tp_complaint` to be empty.
TpShard tp_shard(const ModelConfig& config, const TpPlace& place);

/// Why the model cannot be cut into `size` parts, with what would be valid; "" when it can.
std::string tp_complaint(const ModelConfig& config, int64_t size);

}  // namespace verlcpp::model
