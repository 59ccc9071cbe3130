#include "train/compare_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>

#include "model/weights_io.h"
#include "train/compare_table.h"

namespace verlcpp::train {
namespace {

using nlohmann::ordered_json;

DType run_dtype(const TrainConfig& config) {
  return dtype_named(config.actor_rollout_ref.actor.megatron.dtype).value();
}

struct Verdict {
  bool equal_tokens = true;
  bool nothing_learned = true;  // no arm had a gradient: equal losses say little
  Disagreement differing;
  CompareTolerance tolerance;
  bool first_alone = false;  // later mini-batches are not judged
};

Verdict judge(const Comparison& comparison, const TrainConfig& config) {
  const DType dtype = run_dtype(config);
  Verdict verdict{.differing = disagreement(comparison, dtype),
                  .tolerance = compare_tolerance(dtype),
                  .first_alone = judges_first_alone(dtype)};
  for (const ArmResult& arm : comparison.arms) {
    const ArmResult& reference = comparison.arms.front();
    if (arm.total().tokens != reference.total().tokens) verdict.equal_tokens = false;
    for (double norm : arm.grad_norms) verdict.nothing_learned &= norm == 0;
  }
  return verdict;
}

std::string samples_from(const TrainConfig& config) {
  const RolloutConfig& rollout = config.actor_rollout_ref.rollout;
  return rollout.name == "replay" ? rollout.replay_path.value_or("")
                                  : "rollout of the initial weights";
}

std::string weights_from(const TrainConfig& config) {
  const std::string& folder = config.actor_rollout_ref.model.path;
  if (model::has_weights(folder)) return folder;
  return fmt::format("random, seed {}", config.actor_rollout_ref.actor.megatron.seed);
}

std::string recompute_text(const TrainConfig& config) {
  const config::Node* node =
      transformer_override(config.actor_rollout_ref.actor.megatron, "recompute_granularity");
  return node == nullptr ? "none" : config::to_inline(*node);
}

int64_t batch_tokens(const Comparison& comparison) {
  return std::accumulate(comparison.lengths.begin(), comparison.lengths.end(), int64_t{0});
}

ordered_json layout_json(std::span<const CompareArm> arms) {
  const TrainConfig& config = arms.front().config;
  const parallel::AxisSizes sizes = batching_rule(config, Pass::kActorUpdate).sizes;
  const int64_t limit = compare_limit(arms.front());
  const std::optional<DcpSettings> dcp =
      dcp_settings(arms.back().config.actor_rollout_ref.actor.megatron);
  ordered_json out;
  out["world"] = sizes.world;
  out["tensor_model_parallel_size"] = sizes.tp;
  out["pipeline_model_parallel_size"] = sizes.pp;
  out["context_parallel_size"] = sizes.cp;
  out["data_parallel_size"] = sizes.dp();
  out["dpxcp_pool"] = sizes.pool();
  out["limit_tokens_per_rank"] = limit;
  out["static_pack_tokens"] = limit * sizes.cp;
  out["min_dynamic_context_parallel_size"] = dcp ? dcp->min_cp : 1;
  return out;
}

ordered_json settings_json(const Comparison& comparison, std::span<const CompareArm> arms,
                           const CompareOptions& options) {
  const TrainConfig& config = arms.front().config;
  const ActorConfig& actor = config.actor_rollout_ref.actor;
  const auto [shortest, longest] =
      std::minmax_element(comparison.lengths.begin(), comparison.lengths.end());
  ordered_json out = layout_json(arms);
  out["train_batch_size"] = config.data.train_batch_size;
  out["n"] = config.actor_rollout_ref.rollout.n;
  out["ppo_mini_batch_size"] = actor.ppo_mini_batch_size;
  out["ppo_epochs"] = actor.ppo_epochs;
  out["samples"] = comparison.lengths.size();
  out["samples_from"] = samples_from(config);
  out["batch_tokens"] = batch_tokens(comparison);
  out["shortest_sample"] = *shortest;
  out["longest_sample"] = *longest;
  out["weights"] = weights_from(config);
  out["reference_model"] = config.uses_reference();
  out["optimizer"] = actor.optim.optimizer;
  out["lr"] = actor.optim.lr;
  out["recompute"] = recompute_text(config);
  out["dtype"] = actor.megatron.dtype;
  out["device"] = config.trainer.device;
  out["steps"] = options.steps;
  out["warmup"] = options.warmup;
  return out;
}

ordered_json stats_json(const ScheduleStats& stats) {
  ordered_json out;
  out["real_tokens"] = stats.tokens;
  out["padded_tokens"] = stats.padded_tokens;
  out["micro_batches"] = stats.micro_batches;
  out["groups_by_cp"] = ordered_json::object();
  for (size_t cp = 0; cp < stats.groups_by_cp.size(); ++cp) {
    if (stats.groups_by_cp[cp] > 0)
      out["groups_by_cp"][std::to_string(cp)] = stats.groups_by_cp[cp];
  }
  return out;
}

ordered_json arm_json(const ArmResult& arm) {
  ordered_json out;
  out["name"] = arm.name;
  out["step_seconds"] = arm.step_seconds;
  out["median_seconds"] = arm.median_seconds();
  out["min_seconds"] = arm.min_seconds();
  out["max_seconds"] = arm.max_seconds();
  out.update(stats_json(arm.total()));
  out["tokens_per_second"] = arm.tokens_per_second();
  out["passes"] = ordered_json::object();
  for (const auto& [name, stats] : arm.passes) out["passes"][name] = stats_json(stats);
  out["loss"] = arm.loss();
  out["grad_norm"] = arm.grad_norm();
  out["mini_batch_losses"] = arm.losses;
  out["mini_batch_grad_norms"] = arm.grad_norms;
  out["loss_drift"] = arm.loss_drift;
  out["predicted_seconds"] =
      arm.predicted_seconds ? ordered_json(*arm.predicted_seconds) : ordered_json();
  out["predicted_balance"] = arm.predicted_balance;
  out["measured_balance"] = arm.measured_balance;
  out["peak_bytes"] = arm.peak_bytes;
  return out;
}

ordered_json predicted_json(const Comparison& comparison) {
  ordered_json out;
  out["measured_for"] = comparison.predicted_from;  // empty: operations of the layers alone
  out["exchanges_cost"] = comparison.exchanges_cost;
  // Gradient reduction and optimizer: the file's seconds of a mini-batch, on its ranks.
  out["between_micro_batches"] = comparison.predicted_from.empty() ? "nothing" : "as measured";
  out["steps"] = ordered_json::array();
  for (const PredictedStep& step : comparison.predicted) {
    ordered_json& entry = out["steps"].emplace_back();
    entry["gpus"] = step.gpus;
    entry["context_parallel_size"] = step.cp;
    entry["limit_tokens_per_rank"] = step.limit;
    entry["arms"] = ordered_json::array();
    for (size_t i = 0; i < step.seconds.size(); ++i) {
      const bool measured = !comparison.predicted_from.empty();
      entry["arms"].push_back(
          {{"name", comparison.arms[i].name},
           {"seconds", measured ? ordered_json(step.seconds[i]) : ordered_json()},
           {"speedup", step.seconds.front() / step.seconds[i]}});
    }
  }
  return out;
}

ordered_json difference_json(const ArmResult& arm, const ArmResult& reference) {
  const ArmDifference d = difference(arm, reference), first = difference(arm, reference, 1);
  ordered_json out;
  out["arm"] = arm.name;
  out["against"] = reference.name;
  out["loss_abs"] = d.loss_abs;
  out["loss_rel"] = d.loss_rel;
  out["grad_norm_rel"] = d.grad_norm_rel;
  out["speedup"] = d.speedup;
  out["first_mini_batch"] = {{"loss_abs", first.loss_abs}, {"grad_norm_rel", first.grad_norm_rel}};
  return out;
}

ordered_json verdict_json(const Verdict& verdict) {
  ordered_json out;
  out["equal_tokens"] = verdict.equal_tokens;
  out["loss_tolerance"] = verdict.tolerance.loss;
  out["loss_within_tolerance"] = verdict.differing.losses.empty();
  out["grad_norm_tolerance"] = verdict.tolerance.grad_norm;
  out["grad_norm_within_tolerance"] = verdict.differing.grad_norms.empty();
  out["judged_mini_batches"] = verdict.first_alone ? "first" : "all";
  out["all_gradients_zero"] = verdict.nothing_learned;
  return out;
}

std::vector<std::string> heading(const Comparison& comparison, std::span<const CompareArm> arms,
                                 const CompareOptions& options) {
  const ordered_json s = settings_json(comparison, arms, options);
  const auto number = [&](const char* key) { return s[key].get<int64_t>(); };
  return {
      fmt::format("layout: {} ranks, TP {} x PP {} x CP {} x DP {}, DPxCP pool {}, {} on {}",
                  number("world"), number("tensor_model_parallel_size"),
                  number("pipeline_model_parallel_size"), number("context_parallel_size"),
                  number("data_parallel_size"), number("dpxcp_pool"), s["dtype"].get<std::string>(),
                  s["device"].get<std::string>()),
      fmt::format("limit: {} tokens per rank; a static pack holds {} x CP {} = {}",
                  number("limit_tokens_per_rank"), number("limit_tokens_per_rank"),
                  number("context_parallel_size"), number("static_pack_tokens")),
      fmt::format("samples: {} of {} to {} tokens, {} in all, from {}", number("samples"),
                  number("shortest_sample"), number("longest_sample"), number("batch_tokens"),
                  s["samples_from"].get<std::string>()),
      fmt::format("step: log-prob passes of the actor{}, then {} mini-batches x {} epochs, {}, "
                  "recompute {}",
                  s["reference_model"].get<bool>() ? " and the reference" : "",
                  number("train_batch_size") / number("ppo_mini_batch_size"), number("ppo_epochs"),
                  s["optimizer"].get<std::string>(), s["recompute"].get<std::string>()),
      "weights: " + s["weights"].get<std::string>(),
      fmt::format("{} rounds after {} of warm-up, arms in turn, the same weights and optimizer "
                  "state before each step",
                  options.steps, options.warmup)};
}

/// "losses agree within 1e-09", "losses of dcp DIFFER BY MORE THAN 1e-09".
std::string agreement_text(const std::string& what, const std::string& judged,
                           const std::vector<std::string>& differing, double tolerance) {
  if (differing.empty()) return fmt::format("{}{} agree within {:.0e}", what, judged, tolerance);
  return fmt::format("{} of {} DIFFER BY MORE THAN {:.0e}", what, fmt::join(differing, ", "),
                     tolerance);
}

std::string verdict_text(const Comparison& comparison, const TrainConfig& config) {
  const Verdict verdict = judge(comparison, config);
  std::string text = verdict.equal_tokens ? "equal tokens; " : "UNEQUAL TOKENS; ";
  const CompareTolerance& tolerance = verdict.tolerance;
  const std::string judged = verdict.first_alone ? " of the first mini-batch" : "";
  if (!verdict.differing.any() && tolerance.loss == tolerance.grad_norm) {
    text += agreement_text("losses and gradient norms", judged, {}, tolerance.loss);
  } else {
    text +=
        agreement_text("losses", judged, verdict.differing.losses, tolerance.loss) + ", " +
        agreement_text("gradient norms", judged, verdict.differing.grad_norms, tolerance.grad_norm);
  }
  text += " (" + config.actor_rollout_ref.actor.megatron.dtype + ")";
  if (verdict.first_alone && comparison.arms.front().losses.size() > 1) {
    text +=
        "\nlater mini-batches follow an optimizer step, which makes a sign of every rounding: "
        "their\ndifferences are reported, not judged, as long as they are finite";
  }
  if (verdict.nothing_learned) {
    text += "\nno sample had an advantage: every gradient is zero, so equal losses say little";
  }
  return text + "\n";
}

}  // namespace

CompareTolerance compare_tolerance(DType dtype) {
  if (dtype == DType::kFloat64) return {.loss = 1e-9, .grad_norm = 1e-9};
  if (dtype == DType::kFloat32) return {.loss = 1e-5, .grad_norm = 1e-5};
  return {.loss = 5e-4, .grad_norm = 5e-3};
}

bool judges_first_alone(DType dtype) {
  return dtype != DType::kFloat64 && dtype != DType::kFloat32;
}

Disagreement disagreement(const Comparison& comparison, DType dtype) {
  Disagreement found;
  const CompareTolerance tolerance = compare_tolerance(dtype);
  const ArmResult& reference = comparison.arms.front();
  for (const ArmResult& arm : comparison.arms) {
    const ArmDifference all = difference(arm, reference);
    const ArmDifference judged = judges_first_alone(dtype) ? difference(arm, reference, 1) : all;
    // Negated, so that what is no number differs.
    if (!(judged.loss_abs <= tolerance.loss) || !std::isfinite(all.loss_abs)) {
      found.losses.push_back(arm.name);
    }
    if (!(judged.grad_norm_rel <= tolerance.grad_norm) || !std::isfinite(all.grad_norm_rel)) {
      found.grad_norms.push_back(arm.name);
    }
  }
  return found;
}

std::string what_differs(const Disagreement& found) {
  if (found.grad_norms.empty()) return found.losses.empty() ? "" : "losses";
  return found.losses.empty() ? "gradient norms" : "losses and gradient norms";
}

std::string to_text(const Comparison& comparison, std::span<const CompareArm> arms,
                    const CompareOptions& options) {
  std::string text = "dynamic against static context parallelism\n";
  for (const std::string& line : heading(comparison, arms, options)) text += line + "\n";
  text += "\n" + compare_table(comparison) + "\n";
  text +=
      "Tokens, micro-batches and groups are those of all passes of one step. Balance is the "
      "busiest\n"
      "rank's work over the mean: predicted from the lengths, measured as computing time of a "
      "rank\n"
      "outside of transfers and waits, in a round of its own. Loss and gradient norm are means "
      "over\n"
      "the mini-batches, differences the largest of them. Memory is without the comparison's own\n"
      "copies.\n\n";
  const std::string predicted = predicted_table(comparison);
  if (!predicted.empty()) text += predicted + "\n";
  return text + verdict_text(comparison, arms.front().config);
}

std::string to_json(const Comparison& comparison, std::span<const CompareArm> arms,
                    const CompareOptions& options) {
  ordered_json out;
  out["version"] = 1;
  out["settings"] = settings_json(comparison, arms, options);
  out["arms"] = ordered_json::array();
  out["differences"] = ordered_json::array();
  for (const ArmResult& arm : comparison.arms) {
    out["arms"].push_back(arm_json(arm));
    out["differences"].push_back(difference_json(arm, comparison.arms.front()));
  }
  out["predicted"] = predicted_json(comparison);
  out["verdict"] = verdict_json(judge(comparison, arms.front().config));
  return out.dump(2);
}

}  // namespace verlcpp::train
