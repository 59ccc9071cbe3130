#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "model/model_config.h"
#include "parallel/rank_device.h"
#include "tensor/backend.h"
#include "train/inputs.h"
#include "train/memory_plan.h"
#include "train/train_config.h"

// Whole steps whose micro-batches fill their budget, to hold the memory plan against.

namespace verlcpp::test {

struct MemoryCase {
  std::string name;
  model::ModelConfig model;
  std::vector<std::string> overrides;
  int64_t length = 256;  // of every sequence, in tokens
  int64_t prompts = 1;   // two responses to each
  int64_t budget = 512;  // tokens of a rank's micro-batch: sequences fill it
};

/// Three models under layouts with and without TP, CP, DCP and recompute.
std::vector<MemoryCase> memory_cases();
/// Qwen2.5 0.5B and 1.5B and Qwen3 0.6B, 8,192 tokens in a rank's micro-batch.
std::vector<MemoryCase> full_size_memory_cases();

train::TrainConfig memory_config(const MemoryCase& c, const std::string& device, DType dtype);

/// Its prompts.
train::Inputs memory_inputs(const MemoryCase& c, const train::TrainConfig& config);

struct MeasuredStep {
  MemoryBytes peak;   // each number of the rank where it is largest
  int64_t grown = 0;  // bytes taken from the machine after a backend was made, by the same rule
};

/// Rollout, log-prob passes and update on thread ranks.
MeasuredStep measured_step(const MemoryCase& c, const train::TrainConfig& config,
                           const parallel::MakeDevice& make_device);

/// What differs by more than a tenth of the planned bytes among items of at least a MiB, and the
/// whole; "" when nothing does.
std::string beyond_a_tenth(const MemoryBytes& planned, const MemoryBytes& measured);

}  // namespace verlcpp::test
