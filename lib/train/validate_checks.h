#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "parallel/topology.h"
#include "train/train_config.h"
#include "train/validate_findings.h"

// The parts of validate(), each adding what is wrong to the findings.

namespace verlcpp::train {

/// All of them; `assumed_response_length` is --assume-response-length.
void check_all(const TrainConfig& config, Findings& findings,
               std::optional<int64_t> assumed_response_length);

/// Keys that no struct reads: refused ones that were changed, and a warning that names those
/// without effect that somebody set.
void check_keys(Findings& findings);
/// Parallel sizes, devices and dtypes.
void check_layout(const TrainConfig& config, Findings& findings);
/// The preconditions of dynamic context parallelism, actor and reference alike, and the features
/// that no layout of this build runs (padding, value models, FP8, ...).
void check_dynamic_cp(const TrainConfig& config, Findings& findings);
void check_features(const TrainConfig& config, Findings& findings);
/// Batch sizes, micro-batches, token budgets, the longest sequence.
void check_batches(const TrainConfig& config, Findings& findings);
/// Estimator, losses, KL, optimizer.
void check_algorithm(const TrainConfig& config, Findings& findings);
/// Rollout, trainer and checkpoint settings.
void check_run(const TrainConfig& config, Findings& findings);
/// How responses are scored: manager, program, penalties.
void check_reward(const TrainConfig& config, Findings& findings);
/// The model folder and the data files exist, and the model is one we run (with check_outputs).
void check_files(const TrainConfig& config, Findings& findings);
/// Values that somebody set and that another setting makes idle.
void check_unused(const TrainConfig& config, Findings& findings);
/// What the run writes can be made, as far as names show, and is over nothing that it reads.
void check_outputs(const TrainConfig& config, Findings& findings);
/// Of a `path` that is no regular file: what it is instead.
std::string why_no_file(const std::string& path);

/// 1 to kMaxCount, and how a message says so.
bool is_count(int64_t value);
inline constexpr const char* kValidCount = "must be a positive integer of at most 1073741824";
/// A positive int; not a bool, float or string.
bool is_positive_int(const config::Node& node);
/// The keys that the world and the axes of the actor's layout follow from.
Findings::Keys world_keys();
Findings::Keys layout_keys();
/// Axis sizes of the actor, or nothing when the world cannot be cut that way (reported elsewhere).
std::optional<parallel::AxisSizes> axis_sizes(const TrainConfig& config);

/// The longest prompt and response with their keys, and their sum; what of them fits in `capacity`
/// tokens.
/// The key that says how long a response may be: the rollout's, which follows data's.
std::string response_key(const TrainConfig& config);
std::string longest_text(const TrainConfig& config, const Findings& findings);
std::string fits_text(const TrainConfig& config, int64_t capacity);

/// "X is not implemented", in verl's words where dynamic CP would refuse it there: it is in vain to
/// switch that off.
std::string unsupported(bool dynamic, const std::string& what);
std::string language_models_only(bool dynamic, const std::string& what);
/// What the sizes of a layout have to satisfy together.
struct LayoutRule {
  parallel::AxisSizes sizes;
  int64_t ranks_beside_gpus = 1;  // world = this x trainer.n_gpus_per_node
  bool dynamic = false;           // DPxCP has to be even
  std::vector<int64_t> tp_sizes;  // those that the model takes; empty when it is not known
};
LayoutRule layout_rule(const TrainConfig& config);
/// The sizes of tensor parallelism that the model takes; none when its config.json cannot be read,
/// which is said elsewhere.
std::vector<int64_t> tp_sizes(const TrainConfig& config);
/// "; nearest valid: trainer.n_gpus_per_node 4 or 8, or context_parallel_size 2": each size that
/// would do with all others as they are; "" without one.
std::string nearest_sizes(const LayoutRule& rule);
/// "6 = trainer.n_gpus_per_node = 6 (override 1)", by the factors that are not one.
std::string world_text(int64_t world, const Findings& findings);
/// The world is a multiple of tp * pp * cp, all of them positive; shared with --plan.
void check_divisible(const LayoutRule& rule, Findings& findings);

/// The two roles with a Megatron block, and the tree's name of the block.
struct Role {
  std::string name, key;
  const MegatronConfig* megatron;
};
std::vector<Role> roles(const TrainConfig& config);
/// Names in the free map override_transformer_config that nothing reads: what would make another
/// model is refused, the rest has no effect.
void check_unread_overrides(const Role& role, Findings& findings);
/// Names in the free map override_config that are none of `read`, of which this model's config.json
/// is made: a warning for each.
void check_unread_model_overrides(const ModelSection& model, const std::set<std::string>& read,
                                  Findings& findings);
/// True when the reference only inherits the actor's value of `field` in the Megatron block, so
/// that one line about the actor says it all.
bool inherited(const Findings& findings, const Role& role, const std::string& field);

/// max_seqlen_per_dp_cp_rank and DPxCP with verl's messages; shared with --plan.
void check_dcp_limit(Findings& findings, const std::string& megatron_key,
                     const config::Node& limit);
void check_dcp_pool(Findings& findings, const std::string& megatron_key, const LayoutRule& rule);
void check_dcp_scheduler(Findings& findings, const std::string& megatron_key,
                         const std::string& scheduler);
/// What is to be known about a valid scheduler; "" when nothing.
std::string scheduler_warning(const Findings& findings, const std::string& megatron_key,
                              const std::string& scheduler, bool dynamic, bool measured);
void check_min_cp(Findings& findings, const std::string& megatron_key, const config::Node& min_cp,
                  int64_t pool);

}  // namespace verlcpp::train
