#include "train/memory_plan.h"

#include <algorithm>

#include "model/parameters.h"
#include "schedule/plan.h"
#include "tensor/cuda_limits.h"
#include "tensor/dtype.h"
#include "train/engine.h"
#include "train/memory_moments.h"
#include "train/pipeline.h"
#include "train/recompute.h"
#include "train/validate.h"

namespace verlcpp::train {
namespace {

constexpr int64_t kShortest = 2;  // a prompt and a response of one token each

/// Packed rows that no micro-batch of the update exceeds on any rank, alignment included.
int64_t fullest_micro_batch(const BatchingRule& rule, int64_t longest, int64_t samples) {
  const int64_t cp = rule.sizes.cp;
  const int64_t tp = rule.sizes.tp;
  if (!rule.dcp && !rule.use_dynamic_bsz) {
    const int64_t sequences = std::min(rule.micro_batch_size_per_gpu, samples);
    return sequences * schedule::padded_length(longest, tp, cp) / cp;
  }
  if (!rule.dcp) {
    return schedule::padded_rows_bound(rule.max_token_len_per_gpu, samples, kShortest, longest, tp,
                                       cp);
  }
  int64_t rows = 0;
  for (int64_t size = rule.dcp->min_cp; size <= rule.sizes.pool(); ++size) {
    rows = std::max(rows, schedule::padded_rows_bound(rule.dcp->max_seqlen_per_rank, samples,
                                                      kShortest, longest, tp, size));
  }
  return rows;
}

/// The place on the TP axis that holds most: parts of the vocabulary differ by one row.
model::TpPlace fullest_place(const MegatronConfig& megatron) {
  const int64_t tp = megatron.tensor_model_parallel_size;
  return {.size = tp, .rank = tp - 1, .sequence_parallel = tp > 1 && megatron.sequence_parallel};
}

/// The scheduler's largest group.
int64_t largest_group(const BatchingRule& rule) {
  return rule.dcp ? std::max(rule.dcp->min_cp, rule.sizes.pool()) : rule.sizes.cp;
}

void append(std::vector<MemoryMoment>& moments, const std::vector<MemoryMoment>& more) {
  moments.insert(moments.end(), more.begin(), more.end());
}

/// Log-probs and entropies of a step's response tokens on all ranks (Engine::sum_over_pool).
MemoryMoment log_prob_gather(const MemoryShapes& shapes, int64_t responses,
                             const TrainConfig& config) {
  MemoryMoment moment{"log-probs of all ranks", {}};
  const int64_t bytes = responses * config.actor_rollout_ref.rollout.response_length * 2 *
                        static_cast<int64_t>(sizeof(double));
  moment.bytes.add(MemoryTag::kComm, bytes + reduction_bytes(shapes, bytes));
  return moment;
}

std::vector<MemoryMoment> step_moments(const MemoryShapes& shapes, const TrainConfig& config,
                                       int64_t rows) {
  const RolloutConfig& rollout = config.actor_rollout_ref.rollout;
  const BatchingRule update = batching_rule(config, Pass::kActorUpdate);
  const int64_t longest = longest_sequence(config);
  const int64_t responses = config.data.train_batch_size * rollout.n;

  // Every sample has at most so many rows that predict a response token.
  const auto with_head = [&](int64_t all, int64_t samples) -> MicroBatchRows {
    return {all, std::min(all, samples * rollout.response_length)};
  };
  const int64_t mini = config.actor_rollout_ref.actor.ppo_mini_batch_size * rollout.n;
  std::vector<MemoryMoment> moments =
      update_moments(shapes, with_head(rows, mini), largest_group(update));
  for (const Pass pass : {Pass::kOldLogProb, Pass::kRefLogProb}) {
    if (pass == Pass::kRefLogProb && !config.uses_reference()) continue;
    const BatchingRule rule = batching_rule(config, pass);
    const int64_t all = fullest_micro_batch(rule, longest, responses);
    append(moments, log_prob_moments(shapes, with_head(all, responses), largest_group(rule)));
  }
  moments.push_back(log_prob_gather(shapes, responses, config));
  if (rollout.name == "replay") return moments;
  append(moments,
         rollout_moments(shapes, rollout_slots(config), config.data.max_prompt_length, longest));
  return moments;
}

bool on_gpu(const TrainConfig& config) {
  return config.trainer.device != "cpu";  // a dry run with auto: what it tries first
}

/// The backend's own scratch, which it keeps: cuBLAS's workspace, and partial sums of columns as
/// wide as the widest of the norms and of q, k and v.
int64_t device_scratch(const TrainConfig& config, int64_t widest) {
  if (!on_gpu(config)) return 0;
  constexpr int64_t kCublas = int64_t{32} << 20, kParts = 528;
  return kCublas + kParts * widest * size_of(DType::kFloat32);
}

constexpr size_t kNameWidth = 14, kBytesWidth = 14;  // of columns

std::string note_of(const MemoryPlan& plan, MemoryTag tag,
                    const std::optional<AssumedMemory>& assumed) {
  if (tag == MemoryTag::kWeights) return plan.reference > 0 ? "with the reference's" : "";
  if (tag == MemoryTag::kKv) return "during the rollout only";
  if (tag < MemoryTag::kSaved) return "";
  if (tag > MemoryTag::kSaved) return "at most";
  return "activations, at most, " + std::to_string(plan.tokens_per_rank) +
         (assumed ? " and " + std::to_string(assumed->plan.tokens_per_rank) : "") +
         " packed tokens";
}

/// The name of the moment with the largest whole.
std::string fullest_moment(const MemoryPlan& plan) {
  const auto most =
      std::max_element(plan.moments.begin(), plan.moments.end(),
                       [](const auto& a, const auto& b) { return a.bytes.total < b.bytes.total; });
  return most == plan.moments.end() ? "" : most->name;
}

}  // namespace

MemoryBytes MemoryPlan::peak() const {
  MemoryBytes always, peak;
  always.add(MemoryTag::kWeights, weights + reference);
  always.add(MemoryTag::kMainGrad, gradient);
  always.add(MemoryTag::kOptimizer, optimizer);
  peak = always;
  for (const MemoryMoment& moment : moments) {
    MemoryBytes then = always;
    then.add(moment.bytes);
    peak.raise_to(then);
  }
  return peak;
}

MemoryPlan memory_plan(const model::ModelConfig& model, const TrainConfig& config) {
  const BatchingRule rule = batching_rule(config, Pass::kActorUpdate);
  const RolloutConfig& rollout = config.actor_rollout_ref.rollout;
  const MegatronConfig& megatron = config.actor_rollout_ref.actor.megatron;
  const DType dtype = dtype_named(megatron.dtype).value();
  const model::TpPlace tp = fullest_place(megatron);
  const model::ParameterLayout layout(model, rule.sizes.pool(), tp);
  MemoryShapes shapes(model, dtype, tp);
  shapes.policy = recompute_policy(megatron, model.layers);
  shapes.cuda = on_gpu(config);
  shapes.cudnn = shapes.cuda && cudnn_attends(dtype, model.head_dim);
  shapes.peer = shapes.cuda && config.trainer.ranks_per_gpu > 1;
  if (deterministic(config)) shapes.longest_deterministic = longest_sequence(config);
  shapes.fused_head = config.actor_rollout_ref.model.use_fused_kernels;
  shapes.cp_comm_type = cp_comm_type(megatron).value_or(model::CpCommType::kP2p);

  const int64_t numel = layout.numel();
  MemoryPlan plan;
  plan.on_gpu = shapes.cuda;
  plan.parameters = model.parameter_count();
  plan.held = numel;
  plan.weights = numel * shapes.element;
  plan.gradient = numel * shapes.wide;
  // Two moments, and a master copy when the weights are stored in less than float32; ZeRO-1: of
  // this rank's share.
  const int64_t updated = megatron.use_distributed_optimizer ? numel / rule.sizes.pool() : numel;
  plan.optimizer = updated * shapes.wide * (shapes.element < shapes.wide ? 3 : 2);
  plan.reference = config.uses_reference() ? numel * shapes.element : 0;
  const int64_t samples = config.actor_rollout_ref.actor.ppo_mini_batch_size * rollout.n;
  plan.tokens_per_rank = fullest_micro_batch(rule, longest_sequence(config), samples);
  plan.moments = step_moments(shapes, config, plan.tokens_per_rank);
  plan.moments.push_back(gradient_sum_moment(shapes, layout, rule.sizes.pool()));
  const int64_t scratch = device_scratch(config, std::max(model.hidden, shapes.q + 2 * shapes.kv));
  for (MemoryMoment& moment : plan.moments) moment.bytes.add(MemoryTag::kWorkspace, scratch);
  return plan;
}

std::string to_text(const MemoryPlan& plan, const std::optional<AssumedMemory>& assumed) {
  const auto padded = [](std::string text, size_t width) {
    text.resize(std::max(width, text.size()), ' ');
    return text;
  };
  const MemoryBytes peak = plan.peak();
  const MemoryBytes other = assumed ? assumed->plan.peak() : MemoryBytes();
  std::string text = "memory of one rank, which holds " + std::to_string(plan.held) +
                     " parameters, padding included (the model has " +
                     std::to_string(plan.parameters) + ")\n";
  if (assumed) {
    text += "  " + padded("", kNameWidth) + padded("worst case", kBytesWidth) + "responses of " +
            std::to_string(assumed->response_length) + " tokens at most\n";
  }
  const auto line = [&](std::string_view name, int64_t bytes, int64_t then,
                        const std::string& note) {
    text += "  " + padded(std::string(name), kNameWidth) +
            padded(human_bytes(bytes), assumed ? kBytesWidth : 0) +
            (assumed ? padded(human_bytes(then), note.empty() ? 0 : kBytesWidth - 2) : "") +
            (note.empty() ? "" : "  ") + note + "\n";
  };
  for (const MemoryTag tag : kMemoryTags) {
    if (peak[tag] > 0) line(name_of(tag), peak[tag], other[tag], note_of(plan, tag, assumed));
  }
  line("total", peak.total, other.total,
       "at most, of what is needed at one time: " + fullest_moment(plan) +
           (assumed ? "; " + fullest_moment(assumed->plan) : ""));
  if (plan.on_gpu) {
    text += "  on each GPU " + human_bytes(kForLibraries) +
            " more for CUDA's libraries, and its context\n";
  }
  return text;
}

}  // namespace verlcpp::train
