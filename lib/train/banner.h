#pragma once

#include <string>
#include <vector>

#include "config/tree.h"
#include "train/train_config.h"

namespace verlcpp::train {

/// What a run is about to do, in numbers: layout, the token-budget rule, the DCP limit, mini-batch
/// arithmetic. Expects a validated configuration and the tree it was bound from.
std::vector<std::string> banner(const TrainConfig& config, const config::Node& tree);

/// Warnings about max_seqlen_per_dp_cp_rank against the per-GPU token budget: the two should be the
/// same number (the static packed budget is budget x context_parallel_size for a group of
/// context_parallel_size ranks; the limit is for one rank). Only when a per-GPU budget is in use
/// (use_dynamic_bsz) or somebody set one. The reference's limit is held against the reference's
/// budget when it is used and its limit is not the actor's.
std::vector<std::string> budget_warnings(const TrainConfig& config, const config::Node& tree);

/// Warnings about a balanced scheduler that has no effect or no measured costs, one for both roles.
std::vector<std::string> scheduler_warnings(const TrainConfig& config, const config::Node& tree);

}  // namespace verlcpp::train
