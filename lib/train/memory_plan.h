#pragma once

#include <cstdint>
#include <string>

#include "model/model_config.h"
#include "train/train_config.h"

namespace verlcpp::train {

/// Bytes one rank needs, by item. Weights, gradient, optimizer state and reference are exact flat
/// buffers; the rest is what the fullest micro-batch, and the rollout's prefill and decode, may
/// take.
struct MemoryPlan {
  int64_t parameters = 0;  // of the model, tied ones once
  int64_t weights = 0, gradient = 0, optimizer = 0, reference = 0;
  int64_t tokens_per_rank = 0;  // rows of an update's micro-batch at most, alignment included
  int64_t activations = 0;      // kept between forward and backward
  int64_t logits = 0;           // head rows x vocabulary
  int64_t workspace = 0;  // what one layer's backward, or the head's, needs on top, traffic too
  int64_t kv_cache = 0;   // while the rollout runs
  int64_t decode = 0;     // one forward of the rollout: all prompts at once, then the logits

  /// Training and rollout take turns, so their transient parts do not add up.
  int64_t total() const;
};

/// Pure: no device is asked. Expects a validated configuration.
MemoryPlan memory_plan(const model::ModelConfig& model, const TrainConfig& config);

/// "1.50 GiB", "312.0 KiB", "17 B".
std::string human_bytes(int64_t bytes);
std::string to_text(const MemoryPlan& plan);

}  // namespace verlcpp::train
