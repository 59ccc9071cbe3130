#pragma once

#include <string>

#include "model/model_config.h"
#include "train/train_config.h"

namespace verlcpp::train {

/// "Qwen2ForCausalLM, 24 layers, hidden 896, ..., bfloat16, TP 1, recompute none": what a file's
/// seconds hold for.
std::string cost_subject(const model::ModelConfig& model, const TrainConfig& config);

}  // namespace verlcpp::train
