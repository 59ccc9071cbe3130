#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "data/tokenizer.h"
#include "data/trajectory.h"
#include "train/pipeline.h"

namespace verlcpp::train {

inline constexpr const char* kRolloutDataDir = "trainer.rollout_data_dir";
inline constexpr const char* kValidationDataDir = "trainer.validation_data_dir";

/// verl's _dump_generations: `folder`/`step`.jsonl with an object for each scored response to
/// `spec`: input, output (texts without special tokens), gts (the ground truth), score, step, uid,
/// and the reward extras; one that is called like one of those gives way. In the order of their
/// uids as texts. The file is there whole or not at all, in place of one of the same step, and on
/// the disk. Prints its name. DeviceError names `key`, the path and the reason.
void dump_generations(const std::string& key, const std::string& folder, int64_t step,
                      const data::Tokenizer& tokenizer, const RolloutSpec& spec,
                      std::span<const data::Trajectory> responses);

}  // namespace verlcpp::train
