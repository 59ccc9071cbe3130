#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "data/trajectory.h"
#include "model/model_config.h"
#include "train/layout_run.h"

// One small training case under any layout: a tiny model, twelve recorded trajectories and a
// configuration with everything on that could depend on the layout.

namespace verlcpp::test {

constexpr int64_t kLongest = 48;  // prompt + response; a multiple of every pool of the tests

/// Overrides on top of the case's own, and a name for messages.
struct Layout {
  std::string name;
  std::vector<std::string> overrides;
  bool shuffle_packing = false;
};

/// Dense, tied, with q/k norms and biases; 4 heads share 2 kv heads.
model::ModelConfig tiny_model();
/// Four groups of three: lengths of 1, odd ones, ones shorter than 2 x cp, the exact limit, and one
/// sample without a trainable token.
std::vector<data::Trajectory> recorded(int64_t vocab = tiny_model().vocab);

/// "actor_rollout_ref.actor." + key, and the same of its megatron block.
std::string actor(const std::string& key);
std::string megatron(const std::string& key);
/// The case's configuration; `layout` overrides `more`.
train::TrainConfig make_config(const std::vector<std::string>& layout,
                               const std::vector<std::string>& more);

/// Runs the case, as often as `updates` says; on CPU backends unless told otherwise.
train::LayoutResult updates_of(const train::TrainConfig& config, DType dtype, int updates,
                               bool shuffle_packing, const parallel::MakeDevice& make_device = {},
                               const model::ModelConfig& model = tiny_model());

/// A planner that also shuffles the samples inside each group and reverses the micro-batches.
train::Planner shuffled(train::Planner inner);

Layout static_cp(int world, int cp, std::vector<std::string> more);
/// DCP with max_seqlen_per_dp_cp_rank = limit.
Layout dynamic_cp(int pool, int cp, int64_t limit);
/// `layout` on `tp` times as many ranks.
Layout with_tp(Layout layout, int tp, bool sequence_parallel);
Layout without_zero1(Layout layout);
/// The same numbers with verl's use_fused_kernels.
Layout with_fused_head(Layout layout);
/// The same numbers with Megatron's cp_comm_type all_gather.
Layout with_all_gather(Layout layout);
/// The groups of a dynamic layout balanced by the cost model.
Layout with_balanced(Layout layout);
/// Static micro-batches of so many samples, in every pass.
std::vector<std::string> micro_batches_of(int size);
/// Every kind of layout there is; each must give the numbers of one rank with one micro-batch.
std::vector<Layout> all_layouts();

}  // namespace verlcpp::test
