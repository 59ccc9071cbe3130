#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "data/packed_batch.h"
#include "data/trajectory.h"
#include "model/transformer.h"
#include "parallel/communicator.h"
#include "parallel/topology.h"
#include "schedule/cost.h"
#include "schedule/plan.h"
#include "train/train_config.h"

namespace verlcpp::train {

/// Everything one rank computes with, passed down; a rank is an object on a thread, never a global.
struct Engine {
  Backend& backend;
  const model::Transformer& transformer;
  const parallel::Topology& topology;
  parallel::RankCommunicators comm;
  std::vector<model::Recompute> recompute = {};  // one a layer; empty keeps all activations

  int pool_rank() const { return static_cast<int>(topology.pool_rank()); }
  /// Adds `values` up over the pool, in rank order; every rank gets the sums.
  std::vector<double> sum_over_pool(std::span<const double> values) const;
};

/// Megatron's cp_comm_type in override_transformer_config, p2p where it is not set; nothing when it
/// is none of those built.
std::optional<model::CpCommType> cp_comm_type(const MegatronConfig& megatron);

/// The transformer of one rank in the configured layout.
model::Transformer make_transformer(Backend& backend, const model::ModelConfig& model, DType dtype,
                                    const ActorRolloutRefConfig& config,
                                    const parallel::RankCommunicators& comm);

/// Lengths of a mini-batch's samples -> its micro-batches. Pure; every rank gets the same plan.
using Planner = std::function<schedule::Plan(std::span<const int64_t> lengths)>;

/// How a pass cuts its samples into micro-batches. Under DCP only `dcp` shapes them (verl).
struct BatchingRule {
  parallel::AxisSizes sizes;
  std::optional<DcpSettings> dcp;
  schedule::CostModel cost = {};  // of this pass
  bool use_dynamic_bsz = false;
  int64_t micro_batch_size_per_gpu = 1;
  int64_t max_token_len_per_gpu = 0;
};
enum class Pass { kActorUpdate, kOldLogProb, kRefLogProb };
/// verl's timer name: "update_actor", "old_log_prob", "ref".
std::string pass_name(Pass pass);
BatchingRule batching_rule(const TrainConfig& config, Pass pass);
Planner make_planner(const BatchingRule& rule);

/// A trajectory's token ids end to end, prompt then response.
std::vector<std::vector<int32_t>> token_rows(std::span<const data::Trajectory> batch);
std::vector<int64_t> lengths_of(std::span<const data::Trajectory> batch);

/// One local row of the head: which response token of which sample it predicts.
struct HeadRow {
  int32_t row = 0;    // local packed row
  int sample = 0;     // index into the batch
  int64_t token = 0;  // index into its response
};

/// This rank's part of one micro-batch on the host. `tokens` is indexed by the plan's sample ids.
struct HostMicroBatch {
  data::PackedBatch packed;
  parallel::CpGroup group;
};
HostMicroBatch pack(const Engine& engine, const schedule::MicroBatch& micro_batch,
                    std::span<const std::vector<int32_t>> tokens);

/// This rank's part of one micro-batch.
struct RankMicroBatch {
  data::PackedBatch packed;
  parallel::CpGroup group;
  std::vector<HeadRow> head;
  model::DeviceBatch device;
};

/// Packs, finds the head rows (the rows that predict a response token) and uploads.
/// `tokens` and `batch` are indexed by the plan's sample ids.
RankMicroBatch prepare(const Engine& engine, const schedule::MicroBatch& micro_batch,
                       std::span<const data::Trajectory> batch,
                       std::span<const std::vector<int32_t>> tokens);

/// What a pass ran, for metrics: groups by CP size, unique real tokens, padded tokens on all ranks.
struct ScheduleStats {
  std::vector<int64_t> groups_by_cp;  // index = CP size
  int64_t tokens = 0, padded_tokens = 0, micro_batches = 0;
  void add(const schedule::Plan& plan, std::span<const int64_t> lengths, int64_t tp);
};

/// Throws DataError when a micro-batch of a replayed batch mixes temperatures, which the fused
/// linear cross entropy (use_fused_kernels) cannot do (verl: uniform temperature).
void check_uniform_temperature(const schedule::Plan& plan, std::span<const data::Trajectory> batch);

}  // namespace verlcpp::train
