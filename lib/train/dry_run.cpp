#include "train/dry_run.h"

#include <algorithm>

#include "train/engine.h"
#include "train/memory_plan.h"
#include "train/validate.h"

namespace verlcpp::train {
namespace {

constexpr int64_t kTableRows = 64;    // ranks listed
constexpr int64_t kPlanSamples = 32;  // a plan of more samples is summed up

std::string layout_table(const parallel::AxisSizes& sizes) {
  std::string text = "rank  dp  cp\n";
  const int64_t rows = std::min(sizes.world, kTableRows);
  const auto cell = [](int64_t value, size_t width) {
    const std::string digits = std::to_string(value);
    return std::string(width > digits.size() ? width - digits.size() : 0, ' ') + digits;
  };
  for (int64_t rank = 0; rank < rows; ++rank) {
    const parallel::Topology at(sizes, rank);
    text += cell(rank, 4) + cell(at.dp_rank(), 4) + cell(at.cp_rank(), 4) + "\n";
  }
  if (rows < sizes.world) text += "... " + std::to_string(sizes.world - rows) + " more ranks\n";
  return text;
}

std::string model_line(const model::ModelConfig& m) {
  return "model: " + m.architecture + ", " + std::to_string(m.parameter_count()) + " parameters, " +
         std::to_string(m.layers) + " layers, hidden " + std::to_string(m.hidden) + ", heads " +
         std::to_string(m.heads) + ", kv heads " + std::to_string(m.kv_heads) + ", head dim " +
         std::to_string(m.head_dim) + ", ffn " + std::to_string(m.ffn) + ", vocabulary " +
         std::to_string(m.vocab) + (m.tied_embeddings ? ", tied embeddings\n" : "\n");
}

std::string for_validation(const Inputs& inputs) {
  const size_t prompts = inputs.validation.rows.size();
  return prompts == 0 ? "" : ", " + std::to_string(prompts) + " for validation";
}

std::string schedule_text(const std::string& title, const BatchingRule& rule,
                          std::span<const int64_t> lengths) {
  const schedule::Plan plan = make_planner(rule)(lengths);
  ScheduleStats stats;
  stats.add(plan, lengths, rule.sizes.tp);
  std::string text = "schedule of one mini-batch, " + title + ": " +
                     std::to_string(lengths.size()) + " sequences, " +
                     std::to_string(stats.micro_batches) + " micro-batches, " +
                     std::to_string(stats.tokens) + " tokens (" +
                     std::to_string(stats.padded_tokens) + " padded); CP groups";
  for (size_t cp = 1; cp < stats.groups_by_cp.size(); ++cp) {
    if (stats.groups_by_cp[cp] == 0) continue;
    text += " " + std::to_string(stats.groups_by_cp[cp]) + " of size " + std::to_string(cp);
  }
  text += "\n";
  const bool listed = static_cast<int64_t>(lengths.size()) <= kPlanSamples;
  return listed ? text + schedule::to_text(plan, lengths, rule.sizes.tp) : text;
}

}  // namespace

std::vector<int64_t> first_lengths(const TrainConfig& config, const Inputs& inputs) {
  const int64_t n = config.actor_rollout_ref.rollout.n;
  const int64_t prompts = config.actor_rollout_ref.actor.ppo_mini_batch_size;
  const auto count = static_cast<size_t>(prompts * n);
  std::vector<int64_t> lengths;
  if (inputs.recorded) {
    lengths = lengths_of(inputs.recorded->step(0));
    lengths.resize(std::min(count, lengths.size()));
    return lengths;
  }
  if (inputs.prompt_ids.empty()) return lengths;
  for (size_t i = 0; i < count; ++i) {
    const auto& prompt = inputs.prompt_ids[i / static_cast<size_t>(n) % inputs.prompt_ids.size()];
    const int64_t response = config.data.max_response_length * static_cast<int64_t>(i + 1);
    lengths.push_back(static_cast<int64_t>(prompt.size()) +
                      std::max<int64_t>(1, response / static_cast<int64_t>(count)));
  }
  return lengths;
}

std::string dry_run_report(const TrainConfig& config, const Inputs& inputs) {
  const BatchingRule rule = batching_rule(config, Pass::kActorUpdate);
  const int64_t count =
      config.actor_rollout_ref.actor.ppo_mini_batch_size * config.actor_rollout_ref.rollout.n;
  const std::vector<int64_t> worst(static_cast<size_t>(count), longest_sequence(config));
  std::string text =
      model_line(inputs.model) + "data: " +
      (inputs.recorded ? "recorded trajectories"
                       : std::to_string(inputs.rows.size()) + " prompts" + for_validation(inputs)) +
      ", " + std::to_string(inputs.total_steps) + " steps\n" + layout_table(rule.sizes) +
      to_text(memory_plan(inputs.model, config)) +
      schedule_text("all sequences as long as can be", rule, worst);
  const std::vector<int64_t> first = first_lengths(config, inputs);
  if (first.empty()) return text;
  return text + schedule_text(inputs.recorded ? "the first recorded trajectories"
                                              : "the first prompts with responses spread evenly",
                              rule, first);
}

}  // namespace verlcpp::train
