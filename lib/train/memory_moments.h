#pragma once

#include <vector>

#include "model/model_config.h"
#include "model/parameters.h"
#include "model/transformer.h"
#include "tensor/dtype.h"
#include "train/memory_plan.h"

// The moments of a step at which memory peaks, term by term as the transformer allocates.

namespace verlcpp::train {

/// Sizes of one rank's tensors.
struct MemoryShapes {
  MemoryShapes(const model::ModelConfig& config, DType dtype, const model::TpPlace& place);

  const model::ModelConfig& model;
  model::TpPlace place;
  int64_t element, wide;  // bytes in the compute dtype, and in that of statistics
  // Widths of one rank: D model, q and kv columns, heads N and K, F ffn, V vocabulary.
  int64_t hidden, q, kv, heads, kv_heads, ffn, vocab;
  bool cuda = false;                  // sent tensors live until their transfer is waited for
  bool peer = false;                  // ranks share cards: reductions go through a buffer
  bool cudnn = false;                 // attention's backward asks for scratch of its own
  int64_t longest_deterministic = 0;  // tokens; 0: attention need not repeat bit for bit
  bool fused_head = false;            // logits of two small chunks of rows at a time
  model::HeadChunks head;
  model::CpCommType cp_comm_type = model::CpCommType::kP2p;
  std::vector<model::Recompute> policy;  // one a layer; empty keeps everything

  /// This rank's rows of T with sequence parallelism.
  int64_t own(int64_t rows) const;
};

/// Rows of the fullest micro-batch: packed, T, and of those the head runs on at most R.
struct MicroBatchRows {
  int64_t all = 0, head = 0;
};
/// One micro-batch's forward and backward. `cp` the largest group.
std::vector<MemoryMoment> update_moments(const MemoryShapes& shapes, const MicroBatchRows& rows,
                                         int64_t cp);
/// A forward that keeps nothing.
std::vector<MemoryMoment> log_prob_moments(const MemoryShapes& shapes, const MicroBatchRows& rows,
                                           int64_t cp);
/// `slots` sequences of up to `capacity` positions, which may enter at once with `prompt` tokens.
std::vector<MemoryMoment> rollout_moments(const MemoryShapes& shapes, int64_t slots, int64_t prompt,
                                          int64_t capacity);
/// Sums over the TP ranks of what each holds a part of, and over the pool, see reduce_gradient.
MemoryMoment gradient_sum_moment(const MemoryShapes& shapes, const model::ParameterLayout& layout,
                                 int64_t pool);
/// A sum over ranks of so many bytes, beyond those themselves.
int64_t reduction_bytes(const MemoryShapes& shapes, int64_t bytes);

}  // namespace verlcpp::train
