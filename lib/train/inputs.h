#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/prompts.h"
#include "data/replay.h"
#include "data/tokenizer.h"
#include "model/model_config.h"
#include "reward/manager.h"
#include "train/prompt_scan.h"
#include "train/train_config.h"

namespace verlcpp::train {

/// What every rank reads and none changes: model description, tokenizer, prompts or recorded
/// trajectories. Loaded once per process, before any weight. The reward manager is rank 0's to use.
struct Inputs {
  model::ModelConfig model;
  std::string model_folder;
  std::optional<data::Tokenizer> tokenizer;      // a replayed run can do without
  std::vector<data::PromptRow> rows;             // after subsampling and filtering
  std::vector<std::vector<int32_t>> prompt_ids;  // of rows
  std::unique_ptr<reward::Manager> reward;       // of generated responses
  Prompts validation;                            // of data.val_files, where somebody set them
  std::optional<data::ReplayReader> recorded;    // rollout.name=replay
  int64_t total_steps = 0;
  int64_t steps_per_epoch = 0;
};

/// model.override_config, or its group model_config where it has one (as in verl), to be merged
/// into config.json.
model::ConfigOverride config_override(const ModelSection& model);

/// Throws DataError or ConfigError for anything wrong in the files, before any weight is loaded; to
/// be called after validate(), it says that all checks have passed.
/// `tree` is the one `config` was bound from: it knows the origins of values. `beat`, if any, is
/// called between files, at every prompt that is tokenised and at every recorded step; what it
/// throws goes through. `recorded_steps`: how many steps of a recording the caller plays back,
/// which it has to hold; those of the run unless given. total_steps is the run's in any case.
Inputs load_inputs(const TrainConfig& config, const config::Node& tree,
                   const std::function<void()>& beat = {},
                   std::optional<int64_t> recorded_steps = {});

inline constexpr const char* kSomeGpu = "a GPU";  // whose name is not known
/// A line for every cost file that was measured on another device than `device`: "cpu", a GPU's
/// name, kSomeGpu, or "" for any.
std::vector<std::string> device_warnings(const TrainConfig& config, const config::Node& tree,
                                         const std::string& device);

}  // namespace verlcpp::train
