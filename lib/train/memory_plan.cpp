#include "train/memory_plan.h"

#include <algorithm>
#include <array>
#include <cstdio>

#include "model/parameters.h"
#include "schedule/plan.h"
#include "tensor/dtype.h"
#include "train/engine.h"
#include "train/recompute.h"
#include "train/validate.h"

namespace verlcpp::train {
namespace {

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

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

/// Widths of one rank's tensors, and its rows of T with sequence parallelism.
struct Widths {
  Widths(const model::ModelConfig& m, const model::TpPlace& tp)
      : place(tp),
        shard(tp_shard(m, tp)),
        hidden(m.hidden),
        q(shard.heads * m.head_dim),
        kv(shard.kv_heads * m.head_dim),
        heads(shard.heads),
        ffn(shard.ffn) {}
  int64_t own(int64_t rows) const {
    return place.sequence_parallel ? ceil_div(rows, place.size) : rows;
  }
  model::TpPlace place;
  model::TpShard shard;
  int64_t hidden, q, kv, heads, ffn;
};

/// What model::LayerSaved and model::Saved hold of `rows` packed rows, in elements. A layer that is
/// recomputed in full keeps its input; one such layer at a time is whole again in backward.
int64_t saved_elements(const model::ModelConfig& m, const Widths& w, int64_t rows,
                       const std::vector<model::Recompute>& policy) {
  const int64_t own_rows = w.own(rows), input = own_rows * w.hidden;
  const int64_t core = rows * (w.q + w.heads);  // o and lse
  int64_t layer = 4 * input + 2 * own_rows;     // input, norm1, mid, norm2; their rstd
  layer += core + rows * (w.q + 2 * w.kv);      // q, k, v
  if (m.qk_norm) layer += rows * (w.q + w.kv + w.heads + w.shard.kv_heads);
  layer += rows * 3 * w.ffn;  // gate, up, their product
  const int64_t full = std::count(policy.begin(), policy.end(), model::Recompute::kFull);
  const int64_t selective = std::count(policy.begin(), policy.end(), model::Recompute::kSelective);
  const int64_t whole = m.layers - full - selective;
  const int64_t restored = full > 0 ? layer - input : selective > 0 ? core : 0;
  return whole * layer + full * input + selective * (layer - core) + restored +
         rows * (2 * m.hidden + 4);  // the head's input, twice; rstd, lse, entropy, log-prob
}

/// Temporaries of the head or of one layer, whichever needs more, in elements.
int64_t workspace_elements(const Widths& w, int64_t rows, bool context_parallel) {
  const int64_t d = rows * w.hidden, own = w.own(rows) * w.hidden;
  const int64_t gathered =
      w.place.sequence_parallel ? 2 * d : 0;  // d_y of all rows, and the norm's
  const int64_t head = 3 * d + own;  // hidden rows gathered, their gradient, all rows' gradient
  const int64_t mlp = 3 * own + d + gathered + rows * 3 * w.ffn;
  int64_t attention = 3 * own + d + gathered + rows * (3 * w.q + 4 * w.kv + w.heads);
  // K and V of two peers on their way, and their gradients computed, sent and returned.
  if (context_parallel) attention += rows * 10 * w.kv;
  return std::max({head, mlp, attention});
}

/// One forward over `rows` new tokens of `slots` sequences, in elements.
int64_t decode_elements(const model::ModelConfig& m, const Widths& w, int64_t rows, int64_t slots) {
  const int64_t layer = 6 * w.hidden + 3 * w.q + 4 * w.kv + w.heads + 3 * w.ffn;
  int64_t logits = w.shard.vocab;
  if (w.place.size > 1) {  // all parts side by side, then joined
    logits += m.vocab + (w.place.size + 1) * ceil_div(m.vocab, w.place.size);
  }
  return rows * layer + slots * (logits + 3 * w.hidden);
}

}  // namespace

int64_t MemoryPlan::total() const {
  return weights + gradient + optimizer + reference +
         std::max(activations + logits + workspace, kv_cache + decode);
}

MemoryPlan memory_plan(const model::ModelConfig& model, const TrainConfig& config) {
  const BatchingRule rule = batching_rule(config, Pass::kActorUpdate);
  const RolloutConfig& rollout = config.actor_rollout_ref.rollout;
  const int64_t storage =
      size_of(dtype_named(config.actor_rollout_ref.actor.megatron.dtype).value());
  const int64_t full = std::max<int64_t>(storage, size_of(DType::kFloat32));
  const MegatronConfig& megatron = config.actor_rollout_ref.actor.megatron;
  const model::TpPlace tp = fullest_place(megatron);
  const Widths widths(model, tp);
  const int64_t numel = model::ParameterLayout(model, rule.sizes.pool(), tp).numel();
  const int64_t longest = longest_sequence(config);
  const int64_t samples = config.actor_rollout_ref.actor.ppo_mini_batch_size * rollout.n;

  MemoryPlan plan{.parameters = model.parameter_count(), .weights = numel * storage};
  plan.gradient = numel * full;
  // Two moments, and a master copy when the weights are stored in less than float32; ZeRO-1: of
  // this rank's share.
  const int64_t updated = megatron.use_distributed_optimizer ? numel / rule.sizes.pool() : numel;
  plan.optimizer = updated * full * (storage < full ? 3 : 2);
  plan.reference = config.uses_reference() ? numel * storage : 0;
  plan.tokens_per_rank = fullest_micro_batch(rule, longest, samples);
  plan.activations = saved_elements(model, widths, plan.tokens_per_rank,
                                    recompute_policy(megatron, model.layers)) *
                     storage;
  plan.logits = plan.tokens_per_rank * widths.shard.vocab * full;
  const bool context_parallel = rule.sizes.cp > 1 || (rule.dcp && rule.sizes.pool() > 1);
  plan.workspace = workspace_elements(widths, plan.tokens_per_rank, context_parallel) * full;
  const int64_t responses = config.data.train_batch_size * rollout.n;
  const int64_t slots = std::min(rollout.max_num_seqs, ceil_div(responses, rule.sizes.pool()));
  plan.kv_cache = slots * longest * model.layers * 2 * widths.kv * storage;
  plan.decode = decode_elements(model, widths, slots * config.data.max_prompt_length, slots) * full;
  return plan;
}

std::string human_bytes(int64_t bytes) {
  constexpr std::array units = {"KiB", "MiB", "GiB", "TiB"};
  if (bytes < 1024) return std::to_string(bytes) + " B";
  double value = static_cast<double>(bytes) / 1024;
  size_t unit = 0;
  while (value >= 1024 && unit + 1 < units.size()) {
    value /= 1024;
    ++unit;
  }
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.2f %s", value, units[unit]);
  return text.data();
}

std::string to_text(const MemoryPlan& plan) {
  std::string text = "memory of one rank (" + std::to_string(plan.parameters) + " parameters)\n";
  const auto line = [&](const std::string& name, int64_t bytes, const std::string& note) {
    text += "  " + name + std::string(14 - name.size(), ' ') + human_bytes(bytes) + note + "\n";
  };
  line("weights", plan.weights, "");
  line("gradient", plan.gradient, "");
  line("optimizer", plan.optimizer, "");
  if (plan.reference > 0) line("reference", plan.reference, "");
  line("activations", plan.activations,
       "  at most, " + std::to_string(plan.tokens_per_rank) + " packed tokens");
  line("logits", plan.logits, "  at most");
  line("workspace", plan.workspace, "  at most, of one layer");
  line("kv cache", plan.kv_cache, "  during the rollout only");
  line("decode", plan.decode, "  at most, during the rollout only");
  line("total", plan.total(), "");
  return text;
}

}  // namespace verlcpp::train
