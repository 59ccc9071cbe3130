#pragma once

#include <functional>
#include <string>
#include <vector>

#include "model/export_files.h"
#include "model/model_config.h"
#include "train/engine.h"
#include "train/optimizer.h"

namespace verlcpp::train {

/// Where a checkpoint's tensors lie in its folder: a Hugging Face folder, and one file of HF name +
/// ".master", ".exp_avg", ".exp_avg_sq". Both hold whole tensors, so any layout reads them.
inline constexpr const char* kModelFolder = "actor/model/huggingface";
inline constexpr const char* kOptimizerFile = "actor/optimizer/dist_ckpt/optimizer.safetensors";

/// The tensors of a run that a checkpoint keeps, as one rank holds them.
struct RunTensors {
  const model::ModelConfig& model;
  model::ExportSource source;  // whose tokenizer files go with an export
  const model::ParameterBuffer& weights;
  Optimizer& optimizer;
};

/// Whether actor.checkpoint.save_contents or load_contents names the weights: model, which verl
/// writes as a Hugging Face folder by default, or hf_model; and whether the optimizer's state.
bool names_weights(const std::vector<std::string>& contents);
bool names_optimizer(const std::vector<std::string>& contents);

/// Writes what `contents` (actor.checkpoint.save_contents) names under `folder`, in the run's
/// dtype. Every rank of the world calls it and writes its share of each file; rank 0 creates them.
/// Synced to disk on return. DeviceError names the path, the bytes needed and the reason.
void write_checkpoint_tensors(const Engine& engine, const RunTensors& tensors,
                              const std::vector<std::string>& contents, const std::string& folder);

/// Loads what `contents` (actor.checkpoint.load_contents) names, each rank its own part: the
/// optimizer state and its master weights, else the model's weights alone. One of the two must be
/// named. `beat` is called all the while.
void load_checkpoint_tensors(const Engine& engine, const RunTensors& tensors,
                             const std::vector<std::string>& contents, const std::string& folder,
                             const std::function<void()>& beat);

}  // namespace verlcpp::train
