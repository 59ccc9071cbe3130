#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "config/tree.h"
#include "data/trajectory.h"
#include "schedule/static_cp.h"
#include "train/engine.h"
#include "train/train_config.h"

// The arms of the controlled comparison of dynamic with static context parallelism: one
// configuration, changed in nothing but how samples are scheduled.

namespace verlcpp::train {

struct CompareArm {
  std::string name;
  std::string limit;  // "key = value (origin)" of what the limit was taken from
  config::Node tree;  // resolved; what the comparison changed says so in its origin
  TrainConfig config;
  schedule::Packing packing = schedule::Packing::kBalanced;  // of a static arm

  bool dynamic() const { return config.actor_rollout_ref.actor.megatron.dynamic_context_parallel; }
};

/// "static-balanced" (static CP of context_parallel_size, Karmarkar-Karp under a budget of limit x
/// context_parallel_size tokens), "static-in-order" (the same budget filled in sample order) and
/// "dcp" (dynamic CP, the limit per rank, the default scheduler), in this order, and "dcp-balanced"
/// if the actor's dynamic_cp_scheduler is balanced, from a resolved configuration that may have
/// dynamic CP on or off. The limit is the actor's max_seqlen_per_dp_cp_rank, or its
/// ppo_max_token_len_per_gpu when that is null. Throws ConfigError when the limit is no positive
/// integer, or when the DCP arm does not pass validate().
std::vector<CompareArm> compare_arms(const config::Node& resolved_tree);

/// Tokens per rank: one rank's share of a static micro-batch, and DCP's limit.
int64_t compare_limit(const CompareArm& arm);

/// How `arm` cuts the samples of a pass.
Planner arm_planner(const CompareArm& arm, Pass pass);

/// Throws ConfigError when an arm cannot take a sample that another can (static CP holds limit x
/// context_parallel_size tokens, DCP limit x pool), so that they would not process the same tokens.
void check_same_samples(std::span<const CompareArm> arms, std::span<const data::Trajectory> batch);

/// Every setting of `b` that differs from `a`'s, other than those compare_arms() changes:
/// "key = value (origin) in <b>, value (origin) in <a>".
std::vector<std::string> differing_settings(const CompareArm& a, const CompareArm& b);

}  // namespace verlcpp::train
