#include "train/engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "schedule/balanced_dynamic_cp.h"
#include "schedule/static_cp.h"

namespace verlcpp::train {

std::vector<double> Engine::sum_over_pool(std::span<const double> values) const {
  const Tensor x =
      upload<double>(backend, values, {static_cast<int64_t>(values.size())}, MemoryTag::kComm);
  comm.grad.all_reduce(x, parallel::ReduceOp::kSum).wait();
  return download(backend, x);
}

std::optional<model::CpCommType> cp_comm_type(const MegatronConfig& megatron) {
  const config::Node* node = transformer_override(megatron, "cp_comm_type");
  if (node == nullptr) return model::CpCommType::kP2p;
  const auto* name = node->get_if<std::string>();
  if (name != nullptr && *name == "p2p") return model::CpCommType::kP2p;
  if (name != nullptr && *name == "all_gather") return model::CpCommType::kAllGather;
  return std::nullopt;
}

model::Transformer make_transformer(Backend& backend, const model::ModelConfig& model, DType dtype,
                                    const ActorRolloutRefConfig& config,
                                    const parallel::RankCommunicators& comm) {
  const model::TransformerOptions options{
      .sequence_parallel = config.actor.megatron.sequence_parallel,
      .cp_comm_type = cp_comm_type(config.actor.megatron).value(),
      .fused_head = config.model.use_fused_kernels};
  return {backend, model, dtype, &comm.tp, options, &comm.status};
}

std::string pass_name(Pass pass) {
  switch (pass) {
    case Pass::kActorUpdate:
      return "update_actor";
    case Pass::kOldLogProb:
      return "old_log_prob";
    case Pass::kRefLogProb:
      return "ref";
  }
  return "";
}

BatchingRule batching_rule(const TrainConfig& config, Pass pass) {
  const ActorConfig& actor = config.actor_rollout_ref.actor;
  const RefConfig& ref = config.actor_rollout_ref.ref;
  const RolloutConfig& rollout = config.actor_rollout_ref.rollout;
  const MegatronConfig& megatron = pass == Pass::kRefLogProb ? ref.megatron : actor.megatron;
  BatchingRule rule{
      .sizes = {.world = config.world_size(),
                .tp = megatron.tensor_model_parallel_size,
                .pp = megatron.pipeline_model_parallel_size,
                .cp = megatron.context_parallel_size},
      .dcp = dcp_settings(megatron),
      .cost = pass == Pass::kActorUpdate ? megatron.costs.update : megatron.costs.log_prob};
  switch (pass) {
    case Pass::kActorUpdate:
      rule.use_dynamic_bsz = actor.use_dynamic_bsz;
      rule.micro_batch_size_per_gpu = actor.ppo_micro_batch_size_per_gpu.value_or(1);
      rule.max_token_len_per_gpu = actor.ppo_max_token_len_per_gpu;
      break;
    case Pass::kOldLogProb:
      rule.use_dynamic_bsz = rollout.log_prob_use_dynamic_bsz;
      rule.micro_batch_size_per_gpu = rollout.log_prob_micro_batch_size_per_gpu.value_or(1);
      rule.max_token_len_per_gpu = rollout.log_prob_max_token_len_per_gpu;
      break;
    case Pass::kRefLogProb:
      rule.use_dynamic_bsz = ref.log_prob_use_dynamic_bsz;
      rule.micro_batch_size_per_gpu = ref.log_prob_micro_batch_size_per_gpu.value_or(1);
      rule.max_token_len_per_gpu = ref.log_prob_max_token_len_per_gpu;
      break;
  }
  return rule;
}

Planner make_planner(const BatchingRule& rule) {
  return [rule](std::span<const int64_t> lengths) {
    if (rule.dcp) {
      const schedule::DynamicCpOptions options{.pool = rule.sizes.pool(),
                                               .max_seqlen_per_rank = rule.dcp->max_seqlen_per_rank,
                                               .min_cp = rule.dcp->min_cp};
      return rule.dcp->balanced ? schedule::schedule_balanced_dynamic_cp(lengths, options,
                                                                         rule.cost, rule.sizes.tp)
                                : schedule::schedule_default_dynamic_cp(lengths, options);
    }
    schedule::StaticCpOptions options{.dp = rule.sizes.dp(),
                                      .cp = rule.sizes.cp,
                                      .micro_batch_size = rule.micro_batch_size_per_gpu,
                                      .token_budget = {}};
    if (rule.use_dynamic_bsz) {
      options.token_budget = rule.max_token_len_per_gpu * rule.sizes.cp;
    }
    return schedule::schedule_static_cp(lengths, options);
  };
}

std::vector<std::vector<int32_t>> token_rows(std::span<const data::Trajectory> batch) {
  std::vector<std::vector<int32_t>> rows;
  rows.reserve(batch.size());
  for (const data::Trajectory& t : batch) {
    auto& row = rows.emplace_back(t.prompt_ids);
    row.insert(row.end(), t.response_ids.begin(), t.response_ids.end());
  }
  return rows;
}

std::vector<int64_t> lengths_of(std::span<const data::Trajectory> batch) {
  std::vector<int64_t> lengths;
  lengths.reserve(batch.size());
  for (const data::Trajectory& t : batch) lengths.push_back(t.length());
  return lengths;
}

HostMicroBatch pack(const Engine& engine, const schedule::MicroBatch& micro_batch,
                    std::span<const std::vector<int32_t>> tokens) {
  const int me = engine.pool_rank();
  HostMicroBatch out;
  for (const schedule::PlanGroup& group : micro_batch.groups) {
    const auto place = std::find(group.ranks.begin(), group.ranks.end(), me);
    if (place == group.ranks.end()) continue;
    out.group = {group.ranks, static_cast<int>(place - group.ranks.begin())};
    out.packed = data::pack(group, me, engine.topology.sizes().tp, tokens);
  }
  expects(out.group.size() > 0, "the plan leaves this rank without a group");
  return out;
}

RankMicroBatch prepare(const Engine& engine, const schedule::MicroBatch& micro_batch,
                       std::span<const data::Trajectory> batch,
                       std::span<const std::vector<int32_t>> tokens) {
  HostMicroBatch host = pack(engine, micro_batch, tokens);
  RankMicroBatch out{
      .packed = std::move(host.packed), .group = std::move(host.group), .head = {}, .device = {}};
  std::vector<int32_t> rows;
  std::vector<double> temperature(static_cast<size_t>(out.packed.rows()), 1.0);
  for (int32_t row = 0; row < out.packed.rows(); ++row) {
    const auto r = static_cast<size_t>(row);
    const int document = out.packed.document[r];
    if (document < 0) continue;
    const int sample = out.packed.sample_ids[static_cast<size_t>(document)];
    const data::Trajectory& t = batch[static_cast<size_t>(sample)];
    temperature[r] = t.temperature;
    // The row at position p predicts token p + 1 (verl's response view, shifted left by one).
    const int64_t token = out.packed.position[r] + 1 - t.prompt_length();
    if (token < 0 || token >= t.response_length()) continue;
    out.head.push_back({row, sample, token});
    rows.push_back(row);
  }
  out.device = engine.transformer.upload(out.packed, out.group, rows, temperature);
  return out;
}

void ScheduleStats::add(const schedule::Plan& plan, std::span<const int64_t> lengths, int64_t tp) {
  for (const schedule::MicroBatch& micro_batch : plan.micro_batches) {
    for (const schedule::PlanGroup& group : micro_batch.groups) {
      if (group.ranks.size() >= groups_by_cp.size()) groups_by_cp.resize(group.ranks.size() + 1);
      ++groups_by_cp[group.ranks.size()];
    }
  }
  const schedule::PlanTotals sums = schedule::totals(plan, lengths, tp);
  tokens += sums.tokens;
  padded_tokens += sums.padded_tokens;
  micro_batches += static_cast<int64_t>(plan.micro_batches.size());
}

void check_uniform_temperature(const schedule::Plan& plan,
                               std::span<const data::Trajectory> batch) {
  for (const schedule::MicroBatch& micro_batch : plan.micro_batches) {
    const data::Trajectory* first = nullptr;
    for (const schedule::PlanGroup& group : micro_batch.groups) {
      for (int sample : group.samples) {
        const data::Trajectory& t = batch[static_cast<size_t>(sample)];
        if (first == nullptr) first = &t;
        if (t.temperature == first->temperature) continue;
        throw DataError(
            "actor_rollout_ref.model.use_fused_kernels=True requires a uniform "
            "temperature in each micro-batch, but uid " +
            fmt::format("{} has {} and uid {} has {}", first->uid, first->temperature, t.uid,
                        t.temperature) +
            "; record with one temperature or set use_fused_kernels=False");
      }
    }
  }
}

}  // namespace verlcpp::train
