#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/model_config.h"
#include "tensor/memory.h"
#include "train/train_config.h"

namespace verlcpp::train {

/// What is allocated at one moment of a step on top of what a run holds all the time, at most.
struct MemoryMoment {
  std::string name;
  MemoryBytes bytes;
};

/// Bytes one rank asks for. Weights, gradient, optimizer state and reference are exact flat
/// buffers; the moments are of the fullest micro-batch that the settings allow, every row of it a
/// head row, and of a rollout whose slots are full of the longest prompts.
struct MemoryPlan {
  bool on_gpu = false;
  int64_t parameters = 0;  // of the model, tied ones once
  int64_t held = 0;        // of one rank: its part, with padding
  int64_t weights = 0, reference = 0, gradient = 0, optimizer = 0;
  int64_t tokens_per_rank = 0;  // rows of an update's micro-batch at most, alignment included
  std::vector<MemoryMoment> moments;

  /// The largest at any moment, by tag and of the whole: what Backend::peak_bytes will say.
  MemoryBytes peak() const;
  int64_t total() const { return peak().total; }
};

/// Pure: no device is asked. Expects a validated configuration.
MemoryPlan memory_plan(const model::ModelConfig& model, const TrainConfig& config);

/// A line for each item. `assumed`: a second column for the same run with shorter responses, of
/// `response_length` tokens at most.
struct AssumedMemory {
  int64_t response_length = 0;
  MemoryPlan plan;
};
std::string to_text(const MemoryPlan& plan, const std::optional<AssumedMemory>& assumed = {});

}  // namespace verlcpp::train
