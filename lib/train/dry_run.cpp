#include "train/dry_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <tuple>

#include "train/engine.h"
#include "train/first_step.h"
#include "train/memory_plan.h"
#include "train/update_pass.h"
#include "train/validate.h"

namespace verlcpp::train {
namespace {

constexpr int64_t kTableRows = 64;     // ranks listed
constexpr int64_t kPlanSamples = 32;   // a plan of more samples is summed up
constexpr size_t kListedBatches = 16;  // mini-batches with a line of their own

std::string layout_table(const TrainConfig& config, const parallel::AxisSizes& sizes) {
  const bool on_gpus = config.trainer.device != "cpu";
  const bool nodes = on_gpus && config.trainer.nnodes > 1;
  std::string text = fmt::format(
      "rank = (dp rank x {} + cp rank) x {} + tp rank; {} of {} ranks\n"
      "rank  tp  cp  dp  pool rank{}\n",
      sizes.cp, sizes.tp,
      sizes.tp == 1 ? "one DPxCP pool" : fmt::format("{} DPxCP pools (one a tp rank)", sizes.tp),
      sizes.pool(),
      nodes     ? "  node  gpu"
      : on_gpus ? "  gpu"
                : "");
  const int64_t rows = std::min(sizes.world, kTableRows);
  for (int64_t rank = 0; rank < rows; ++rank) {
    const parallel::Topology at(sizes, rank);
    text += fmt::format("{:4}{:4}{:4}{:4}{:11}", rank, at.tp_rank(), at.cp_rank(), at.dp_rank(),
                        at.pool_rank());
    const int64_t gpu = rank / config.trainer.ranks_per_gpu;
    if (nodes) text += fmt::format("{:6}", gpu / config.trainer.n_gpus_per_node);
    if (on_gpus) text += fmt::format("{:5}", gpu % config.trainer.n_gpus_per_node);
    text += "\n";
  }
  if (rows < sizes.world) text += fmt::format("... {} more ranks\n", sizes.world - rows);
  return text;
}

std::string model_line(const model::ModelConfig& m) {
  return fmt::format(
      "model: {}, {} parameters, {} layers, hidden {}, heads {}, kv heads {}, head dim {}, ffn {}, "
      "vocabulary {}{}\n",
      m.architecture, m.parameter_count(), m.layers, m.hidden, m.heads, m.kv_heads, m.head_dim,
      m.ffn, m.vocab, m.tied_embeddings ? ", tied embeddings" : "");
}

std::string data_line(const Inputs& inputs) {
  const size_t validation = inputs.validation.rows.size();
  return "data: " +
         (inputs.recorded ? "recorded trajectories"
                          : fmt::format("{} prompts", inputs.rows.size())) +
         (validation == 0 ? "" : fmt::format(", {} for validation", validation)) +
         fmt::format(", {} steps\n", inputs.total_steps);
}

/// What one pass makes of some samples.
struct Scheduled {
  schedule::Plan plan;
  ScheduleStats stats;
  double seconds = 0;  // by measured costs
};

/// Of passes in one layout: whether they cut samples alike.
bool cut_alike(const BatchingRule& a, const BatchingRule& b) {
  const auto limits = [](const BatchingRule& rule) {
    const DcpSettings dcp = rule.dcp.value_or(DcpSettings());
    return std::tuple(rule.dcp.has_value(), dcp.max_seqlen_per_rank, dcp.min_cp, dcp.balanced,
                      rule.use_dynamic_bsz, rule.micro_batch_size_per_gpu,
                      rule.max_token_len_per_gpu);
  };
  return limits(a) == limits(b) && a.cost == b.cost;
}

/// Plans passes, and those that follow each other and are the same only once: the reference mostly
/// follows the actor, a mini-batch may be all there is, and large plans take their time.
class Scheduler {
 public:
  const Scheduled& operator()(const BatchingRule& rule, std::span<const int64_t> lengths) {
    if (last_ && cut_alike(last_->rule, rule) && std::ranges::equal(last_->lengths, lengths)) {
      return last_->batch;
    }
    Scheduled batch{.plan = make_planner(rule)(lengths), .stats = {}};
    batch.stats.add(batch.plan, lengths, rule.sizes.tp);
    batch.seconds = schedule::makespan(rule.cost, batch.plan, lengths, rule.sizes.tp);
    return last_.emplace(rule, std::vector(lengths.begin(), lengths.end()), std::move(batch)).batch;
  }

 private:
  struct Planned {
    BatchingRule rule;
    std::vector<int64_t> lengths;
    Scheduled batch;
  };
  std::optional<Planned> last_;
};

/// `lengths`: for the plan itself, where it is short.
std::string schedule_text(const std::string& title, const BatchingRule& rule,
                          const Scheduled& batch, std::span<const int64_t> lengths) {
  std::string text = fmt::format(
      "{}: {} sequences, {} micro-batches, {} tokens ({} padded); CP groups", title, lengths.size(),
      batch.stats.micro_batches, batch.stats.tokens, batch.stats.padded_tokens);
  for (size_t cp = 1; cp < batch.stats.groups_by_cp.size(); ++cp) {
    if (batch.stats.groups_by_cp[cp] == 0) continue;
    text += fmt::format(" {} of size {}", batch.stats.groups_by_cp[cp], cp);
  }
  text += "\n";
  const bool listed = static_cast<int64_t>(lengths.size()) <= kPlanSamples;
  return listed ? text + schedule::to_text(batch.plan, lengths, rule.sizes.tp) : text;
}

std::string worst_case_text(const TrainConfig& config) {
  const BatchingRule rule = batching_rule(config, Pass::kActorUpdate);
  const int64_t count =
      config.actor_rollout_ref.actor.ppo_mini_batch_size * config.actor_rollout_ref.rollout.n;
  const std::vector<int64_t> worst(static_cast<size_t>(count), longest_sequence(config));
  return schedule_text("schedule of one mini-batch, all sequences as long as can be", rule,
                       Scheduler()(rule, worst), worst);
}

/// One step's sums over its passes.
struct StepTotals {
  int64_t responses = 0, tokens = 0, updates = 0, micro_batches = 0;
  double seconds = 0;
};

/// The passes that cut all responses of the step at once.
std::string log_prob_text(const TrainConfig& config, std::span<const int64_t> lengths,
                          Scheduler& scheduled, StepTotals& totals) {
  std::string text;
  for (const Pass pass : {Pass::kOldLogProb, Pass::kRefLogProb}) {
    if (pass == Pass::kRefLogProb && !config.uses_reference()) continue;
    const BatchingRule rule = batching_rule(config, pass);
    const Scheduled& batch = scheduled(rule, lengths);
    totals.micro_batches += batch.stats.micro_batches;
    totals.seconds += batch.seconds;
    text += schedule_text("  " + pass_name(pass), rule, batch, lengths);
  }
  return text;
}

std::string update_text(const TrainConfig& config, std::span<const int64_t> lengths,
                        Scheduler& scheduled, StepTotals& totals) {
  const BatchingRule rule = batching_rule(config, Pass::kActorUpdate);
  const auto samples = static_cast<int64_t>(lengths.size());
  std::string text;
  size_t listed = 0;
  for (const std::vector<int>& mini : mini_batches(samples, update_options(config), 0)) {
    std::vector<int64_t> own;
    for (const int sample : mini) own.push_back(lengths[static_cast<size_t>(sample)]);
    const Scheduled& batch = scheduled(rule, own);
    totals.updates += 1;
    totals.micro_batches += batch.stats.micro_batches;
    totals.seconds += batch.seconds + config.actor_rollout_ref.actor.megatron.costs.mini_batch;
    if (++listed <= kListedBatches) {
      text += schedule_text(fmt::format("  mini-batch {}", listed), rule, batch, own);
    }
  }
  if (listed > kListedBatches) text += fmt::format("  ... {} more\n", listed - kListedBatches);
  return text;
}

/// The passes over the first step, and what all steps come to if each is like it.
std::string first_step_text(const TrainConfig& config, const Inputs& inputs,
                            const std::string& responses, std::span<const int64_t> lengths) {
  if (lengths.empty()) return "";
  StepTotals totals{.responses = static_cast<int64_t>(lengths.size())};
  for (const int64_t length : lengths) totals.tokens += length;
  std::string text = "schedule of the first step, " + responses + "\n";
  Scheduler scheduled;
  text += log_prob_text(config, lengths, scheduled, totals);
  text += update_text(config, lengths, scheduled, totals);
  const int64_t steps = inputs.total_steps;
  text += fmt::format(
      "estimated totals of {} such steps: {} responses, {} tokens, {} updates, {} micro-batches of "
      "all passes",
      steps, steps * totals.responses, steps * totals.tokens, steps * totals.updates,
      steps * totals.micro_batches);
  if (config.actor_rollout_ref.actor.megatron.costs.measured) {
    text += fmt::format("; {:.4g} s in them by dynamic_cp_cost_model, the rollout left out",
                        static_cast<double>(steps) * totals.seconds);
  }
  return text + "\n";
}

}  // namespace

std::string dry_run_report(const TrainConfig& config, const Inputs& inputs,
                           std::optional<int64_t> response_length) {
  std::optional<AssumedMemory> assumed;
  if (response_length) {
    assumed = {*response_length,
               memory_plan(inputs.model, with_responses(config, inputs, *response_length))};
  }
  std::string text = model_line(inputs.model) + data_line(inputs) +
                     layout_table(config, batching_rule(config, Pass::kActorUpdate).sizes) +
                     to_text(memory_plan(inputs.model, config), assumed) + worst_case_text(config) +
                     first_step_text(config, inputs,
                                     inputs.recorded ? "recorded trajectories"
                                                     : "its prompts with responses spread evenly",
                                     first_step_lengths(config, inputs));
  if (!response_length) return text;
  return text +
         first_step_text(config, inputs,
                         fmt::format("its prompts with responses of {} tokens", *response_length),
                         first_step_lengths(config, inputs, response_length));
}

}  // namespace verlcpp::train
