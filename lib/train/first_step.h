#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "train/inputs.h"
#include "train/train_config.h"

namespace verlcpp::train {

/// Tokens of each response of the run's first step: recorded ones, or those of the prompts that the
/// step takes, in its order, rollout.n responses each. A response has `response_length` tokens;
/// without it, those of a mini-batch are spread evenly from short to max_response_length. Empty
/// where there is nothing to read.
std::vector<int64_t> first_step_lengths(const TrainConfig& config, const Inputs& inputs,
                                        std::optional<int64_t> response_length = {});

/// `config` for a run whose prompts are no longer than those of `inputs` and whose responses have
/// `response_length` tokens at most: what it needs when no response gets longer.
TrainConfig with_responses(const TrainConfig& config, const Inputs& inputs,
                           int64_t response_length);

}  // namespace verlcpp::train
