#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/transformer.h"
#include "train/train_config.h"

namespace verlcpp::train {

/// Megatron's recompute settings in override_transformer_config, as a policy per layer:
/// recompute_granularity null (keep everything), selective (core attention), or full with
/// recompute_method uniform (every layer) or block (the first recompute_num_layers layers).
/// Expects that recompute_problem finds nothing.
std::vector<model::Recompute> recompute_policy(const MegatronConfig& megatron, int64_t layers);

/// What is wrong with these settings, as "field: text"; empty when nothing is.
std::string recompute_problem(const MegatronConfig& megatron);

}  // namespace verlcpp::train
