#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "train/inputs.h"
#include "train/train_config.h"

namespace verlcpp::train {

/// What --dry-run prints after the banner: the model, the layout table, memory of one rank, the
/// schedule of one mini-batch in the worst case (every sequence as long as can be) and of the first
/// step's own prompts, and what the run comes to by that. With `response_length`
/// (--assume-response-length) memory and schedule also for responses of so many tokens. Touches no
/// device. Expects a validated configuration and its inputs.
std::string dry_run_report(const TrainConfig& config, const Inputs& inputs,
                           std::optional<int64_t> response_length = {});

}  // namespace verlcpp::train
