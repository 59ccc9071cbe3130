#pragma once

#include <cstdint>
#include <span>

#include "data/trajectory.h"
#include "train/metrics.h"

namespace verlcpp::train {

/// verl's metrics of a validation (_val_metrics_update): for each data_source the statistics of
/// algo::ResponseStatistics, averaged over its prompts, of the variable "reward" (the score) and of
/// every reward extra that is a number in all responses to a prompt. They are named
/// val-aux/<data_source>/<variable>/<statistic>; those of the variable acc, or else reward, that
/// are mean, maj or best over all n responses val-core/... Votes are the extra `pred`, where all
/// responses to a prompt have one. Then val-aux/num_turns/{min,max,mean}.
/// `responses`: scored, prompt-major, n to each prompt.
Metrics validation_metrics(std::span<const data::Trajectory> responses, int64_t n);

}  // namespace verlcpp::train
