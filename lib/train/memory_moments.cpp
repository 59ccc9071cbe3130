#include "train/memory_moments.h"

#include <algorithm>
#include <bit>
#include <cstdint>

#include "model/context_parallel_attention.h"
#include "rollout/decode_run.h"
#include "rollout/kv_blocks.h"

namespace verlcpp::train {
namespace {

using Tag = MemoryTag;

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

/// Cosines and sines of RoPE.
int64_t rope_bytes(const MemoryShapes& s, int64_t rows) { return rows * s.model.head_dim * s.wide; }

/// Token ids, RoPE's table, head rows, labels and temperatures of a micro-batch.
int64_t batch_bytes(const MemoryShapes& s, const MicroBatchRows& rows) {
  return rows.all * 4 + rope_bytes(s, rows.all) + rows.head * (2 * 4 + s.wide);
}

/// Logits of so many rows, of this rank's part of the vocabulary.
int64_t logits_bytes(const MemoryShapes& s, int64_t rows) { return rows * s.vocab * s.wide; }

/// What is kept of them for their gradient, which then takes its place.
int64_t kept_bytes(const MemoryShapes& s, int64_t rows) {
  if (s.element == s.wide) return logits_bytes(s, rows);
  return rows * (s.vocab * s.element + kept_groups(s.vocab) * s.wide);
}

/// Logits that pass by in memory besides, because they cannot in registers.
int64_t passing_logits_bytes(const MemoryShapes& s, int64_t rows) {
  if (s.element == s.wide || head_in_registers(s.vocab, s.hidden)) return 0;
  return logits_bytes(s, std::min(rows, s.head.rows));
}

// --- model::LayerSaved, by what a recompute policy keeps or drops
// ---------------------------------

int64_t input_bytes(const MemoryShapes& s, int64_t rows) {
  return s.own(rows) * s.hidden * s.element;
}

/// o and lse.
int64_t core_bytes(const MemoryShapes& s, int64_t rows) {
  return rows * (s.q * s.element + s.heads * s.wide);
}

/// The first norm, q, k, v, and what QK norm keeps.
int64_t qkv_bytes(const MemoryShapes& s, int64_t rows) {
  int64_t row = (s.q + 2 * s.kv) * s.element;
  if (s.model.qk_norm) row += (s.q + s.kv) * s.element + (s.heads + s.kv_heads) * s.wide;
  return input_bytes(s, rows) + s.own(rows) * s.wide + rows * row;
}

/// The middle, its norm, gate and up, and their product.
int64_t mlp_bytes(const MemoryShapes& s, int64_t rows) {
  return 2 * input_bytes(s, rows) + s.own(rows) * s.wide + rows * 3 * s.ffn * s.element;
}

int64_t layer_bytes(const MemoryShapes& s, int64_t rows) {
  return input_bytes(s, rows) + qkv_bytes(s, rows) + core_bytes(s, rows) + mlp_bytes(s, rows);
}

struct LayersSaved {
  int64_t kept = 0;
  int64_t restored = 0;  // computed again in backward, one layer at a time
};

LayersSaved layers_saved(const MemoryShapes& s, int64_t rows) {
  const auto count = [&](model::Recompute r) {
    return static_cast<int64_t>(std::count(s.policy.begin(), s.policy.end(), r));
  };
  const int64_t full = count(model::Recompute::kFull);
  const int64_t selective = count(model::Recompute::kSelective);
  const int64_t layer = layer_bytes(s, rows), core = core_bytes(s, rows);
  const int64_t input = input_bytes(s, rows);
  LayersSaved saved{.kept = (s.model.layers - full - selective) * layer + full * input +
                            selective * (layer - core)};
  if (full > 0) {
    saved.restored = layer - input;
  } else if (selective > 0) {
    saved.restored = core;
  }
  return saved;
}

/// The head's input twice; rstd, lse, entropy and log-prob.
int64_t head_bytes(const MemoryShapes& s, int64_t rows) {
  return rows * (2 * s.hidden * s.element + 4 * s.wide);
}

// --- movement ------------------------------------------------------------------------------------

/// A copy of all rows that sequence parallelism gathers.
int64_t gathered_bytes(const MemoryShapes& s, int64_t rows) {
  return s.place.sequence_parallel ? rows * s.hidden * s.element : 0;
}

/// Statistics of the logits, four doubles a row: mine; with TP those of all ranks.
void add_logit_stats(const MemoryShapes& s, int64_t rows, MemoryBytes& bytes) {
  constexpr int64_t kStats = 4 * sizeof(double);
  bytes.add(Tag::kWorkspace, rows * kStats);
  if (s.place.size > 1) bytes.add(Tag::kComm, s.place.size * rows * kStats);
}

bool gathers(const MemoryShapes& s, int64_t cp) {
  return cp > 1 && s.cp_comm_type == model::CpCommType::kAllGather;
}

/// Ring: K and V of a peer, of two while the next travel. All-gather: those of the whole group.
int64_t kv_comm_bytes(const MemoryShapes& s, int64_t rows, int64_t cp) {
  const int64_t in_flight = gathers(s, cp) ? cp : cp == 1 ? 0 : cp == 2 ? 1 : 2;
  return in_flight * rows * 2 * s.kv * s.element;
}

/// Gradients of those. Ring: computed here for a peer, and on their way home, where a device also
/// keeps what it has sent. All-gather: sorted by member, and the parts that come home.
int64_t kv_gradient_comm_bytes(const MemoryShapes& s, int64_t rows, int64_t cp) {
  const int64_t pairs = gathers(s, cp) ? 2 * cp : cp == 1 ? 0 : cp > 2 && s.cuda ? 3 : 2;
  return pairs * rows * 2 * s.kv * s.wide;
}

/// Both at one time, but for the all-gather, which is over when gradients travel.
int64_t kv_backward_comm_bytes(const MemoryShapes& s, int64_t rows, int64_t cp) {
  const int64_t kv = kv_comm_bytes(s, rows, cp), gradient = kv_gradient_comm_bytes(s, rows, cp);
  return gathers(s, cp) ? std::max(kv, gradient) : kv + gradient;
}

// --- attention -----------------------------------------------------------------------------------

/// Ring: o and lse of one block, a wide o where the dtype is narrow, and cuDNN's narrow one.
/// All-gather: K and V of the group in order; o and lse of the second chunks, twice in part.
int64_t cp_forward_bytes(const MemoryShapes& s, int64_t rows, int64_t cp) {
  if (cp == 1) return 0;
  if (gathers(s, cp)) {
    return cp * rows * 2 * s.kv * s.element + rows * (s.q * s.element + s.heads * s.wide) * 3 / 2;
  }
  const int64_t cudnn = s.cudnn ? rows * s.q * s.element : 0;
  return rows * ((s.element < s.wide ? 2 : 1) * s.q + s.heads) * s.wide + cudnn;
}

/// With context parallelism gradients of q, k and v are summed wide. Ring: over blocks, of which
/// cuDNN's is narrow. All-gather: K, V and their gradients are those of the group.
int64_t attention_backward_bytes(const MemoryShapes& s, int64_t rows, int64_t cp) {
  if (cp == 1) return 0;
  const int64_t kv_rows = gathers(s, cp) ? cp * rows : rows;
  int64_t bytes = s.cudnn ? (rows * s.q + kv_rows * 2 * s.kv) * s.element : 0;
  if (s.element < s.wide) bytes += rows * (s.q + 2 * s.kv) * s.wide;
  if (gathers(s, cp)) bytes += kv_rows * 2 * s.kv * (s.element + s.wide);
  return bytes;
}

/// cuDNN's own scratch in backward, measured: a float32 dQ and row sums, and with grouped heads dK
/// and dV of every query head; of as many rows as its plan is for.
int64_t cudnn_backward_bytes(const MemoryShapes& s, int64_t rows, int64_t cp) {
  if (!s.cudnn) return 0;
  const auto planned = [](int64_t n) {
    return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(n)));
  };
  const int64_t kv_rows = planned(gathers(s, cp) ? cp * rows : rows);
  int64_t bytes = planned(rows) * s.heads * (4 * s.model.head_dim + 4);
  if (s.heads != s.kv_heads) bytes += kv_rows * s.heads * 8 * s.model.head_dim;
  if (s.longest_deterministic == 0) return bytes;
  // Two bytes for every pair of rows of a bucket's documents, which are longer than half the
  // bucket: most for the bucket of the longest.
  const int64_t bucket = std::max<int64_t>(128, planned(s.longest_deterministic));
  const int64_t documents = planned(std::max<int64_t>(1, 2 * rows / bucket));
  return bytes + documents * s.heads * bucket * bucket * 2;
}

/// The sum of a product's rows over TP ranks.
int64_t tp_sum_bytes(const MemoryShapes& s, int64_t rows) {
  return s.place.size > 1 ? reduction_bytes(s, rows * s.hidden * s.element) : 0;
}

/// A product whose rows are summed over TP ranks: with sequence parallelism all rows first.
int64_t row_parallel_bytes(const MemoryShapes& s, int64_t rows) {
  return input_bytes(s, rows) + gathered_bytes(s, rows);
}

/// Workspace of a layer's MLP where nothing is kept, with what the layer holds by then. On a GPU
/// gate and up need none in a narrow dtype and from kRowsOfGates rows on; of micro-batches below
/// that the worst has one row fewer.
int64_t mlp_workspace(const MemoryShapes& s, int64_t rows) {
  const auto with_gates = [&](int64_t r) {
    return layer_bytes(s, r) - input_bytes(s, r) + row_parallel_bytes(s, r);
  };
  if (!s.cuda || s.element == s.wide || !gates_in_registers(rows, s.ffn, s.hidden)) {
    return with_gates(rows);
  }
  return std::max(with_gates(kRowsOfGates - 1), with_gates(rows) - rows * 2 * s.ffn * s.element);
}

/// Workspace of the widest moment of a layer's forward that keeps nothing, beyond what comes in.
int64_t layer_workspace(const MemoryShapes& s, int64_t rows, int64_t cp) {
  const int64_t attention =
      qkv_bytes(s, rows) + core_bytes(s, rows) + cp_forward_bytes(s, rows, cp);
  return std::max(attention, mlp_workspace(s, rows));
}

// --- decoding
// ------------------------------------------------------------------------------------

/// Of rollout::DecodeBatch: id, position, counter, log-prob and block table of each sequence.
int64_t decode_state_bytes(const MemoryShapes& s, int64_t slots, int64_t capacity) {
  return slots * ((1 + 1 + 4 + ceil_div(capacity, model::kKvBlock)) * 4 + s.wide);
}

/// One token of each sequence, logits included. A GPU keeps every tensor of a layer apart.
MemoryBytes decode_step_bytes(const MemoryShapes& s, int64_t slots) {
  MemoryBytes bytes;
  const int64_t hidden = slots * s.hidden * s.element, qkv = slots * (s.q + 2 * s.kv) * s.element;
  const int64_t layer =
      s.cuda ? layer_bytes(s, slots) + qkv + 2 * hidden : hidden + layer_workspace(s, slots, 1);
  bytes.add(Tag::kWorkspace, std::max(layer, hidden + head_bytes(s, slots)));
  bytes.add(Tag::kLogits, logits_bytes(s, slots));
  bytes.add(Tag::kComm, tp_sum_bytes(s, slots));
  if (s.place.size == 1) return bytes;
  // The parts of all ranks side by side, then joined.
  const int64_t part = slots * ceil_div(s.model.vocab, s.place.size) * s.wide;
  bytes.add(Tag::kWorkspace, part);
  bytes.add(Tag::kComm, s.place.size * part);
  bytes.add(Tag::kLogits, slots * s.model.vocab * s.wide);
  return bytes;
}

}  // namespace

MemoryShapes::MemoryShapes(const model::ModelConfig& config, DType dtype,
                           const model::TpPlace& tp_place)
    : model(config),
      place(tp_place),
      element(size_of(dtype)),
      wide(size_of(model::statistics_dtype(dtype))),
      hidden(config.hidden) {
  const model::TpShard shard = tp_shard(config, place);
  heads = shard.heads;
  kv_heads = shard.kv_heads;
  q = heads * config.head_dim;
  kv = kv_heads * config.head_dim;
  ffn = shard.ffn;
  vocab = shard.vocab;
  head = model::head_chunks(vocab, dtype, model::TransformerOptions{}.head_chunk_bytes);
}

int64_t MemoryShapes::own(int64_t rows) const {
  return place.sequence_parallel ? ceil_div(rows, place.size) : rows;
}

int64_t reduction_bytes(const MemoryShapes& s, int64_t bytes) {
  return s.peer ? std::min(bytes, kPeerReduceBytes) : 0;
}

std::vector<MemoryMoment> update_moments(const MemoryShapes& s, const MicroBatchRows& batch,
                                         int64_t cp) {
  const int64_t rows = batch.all;
  const LayersSaved layers = layers_saved(s, rows);
  const int64_t all_rows = rows * s.hidden * s.element, own = input_bytes(s, rows);
  const int64_t gathered = gathered_bytes(s, rows);
  const auto moment = [&](const char* name, int64_t saved) {
    MemoryMoment m{name, {}};
    m.bytes.add(Tag::kSaved, layers.kept + head_bytes(s, batch.head) + saved);
    m.bytes.add(Tag::kWorkspace, batch_bytes(s, batch));
    return m;
  };
  // The last layer's output; with sequence parallelism its gathered copy instead.
  MemoryMoment head = moment("head's forward", all_rows - gathered);
  const int64_t chunk = s.head.of_pair(batch.head, s.fused_head);
  head.bytes.add(Tag::kLogits,
                 kept_bytes(s, std::min(batch.head, 2 * chunk)) + passing_logits_bytes(s, chunk));
  add_logit_stats(s, chunk, head.bytes);
  head.bytes.add(Tag::kWorkspace, batch.head * s.hidden * s.element);  // of its input
  MemoryMoment back = moment("head's backward", 0);
  head.bytes.add(Tag::kComm, gathered);
  back.bytes.add(Tag::kWorkspace,  // of the head rows, of all rows
                 batch.head * s.hidden * s.element + all_rows);

  MemoryMoment mlp = moment("MLP's backward", layers.restored);
  const int64_t d_ffn = rows * 3 * s.ffn * s.element;
  mlp.bytes.add(Tag::kWorkspace, all_rows + d_ffn + all_rows + (gathered > 0 ? own : 0));
  mlp.bytes.add(Tag::kComm, 2 * gathered + tp_sum_bytes(s, rows));

  const int64_t d_qkv = rows * (s.q + 2 * s.kv) * s.element;
  const int64_t d_o = rows * s.q * s.element;
  MemoryMoment core = moment("attention's backward", layers.restored);
  core.bytes.add(Tag::kWorkspace, own + d_o + d_qkv + attention_backward_bytes(s, rows, cp) +
                                      cudnn_backward_bytes(s, rows, cp));
  core.bytes.add(Tag::kComm, gathered + kv_backward_comm_bytes(s, rows, cp));

  MemoryMoment qkv = moment("backward of q, k, v", layers.restored);
  qkv.bytes.add(Tag::kWorkspace, own + d_o + 2 * d_qkv + all_rows + (gathered > 0 ? own : 0));
  qkv.bytes.add(Tag::kComm, 2 * gathered + tp_sum_bytes(s, rows));
  return {head, back, mlp, core, qkv};
}

std::vector<MemoryMoment> log_prob_moments(const MemoryShapes& s, const MicroBatchRows& batch,
                                           int64_t cp) {
  const int64_t rows = batch.all;
  const int64_t all_rows = rows * s.hidden * s.element, gathered = gathered_bytes(s, rows);
  MemoryMoment layer{"log-probs, a layer", {}};
  layer.bytes.add(Tag::kWorkspace,
                  batch_bytes(s, batch) + input_bytes(s, rows) + layer_workspace(s, rows, cp));
  layer.bytes.add(Tag::kComm,
                  std::max(gathered + tp_sum_bytes(s, rows), kv_comm_bytes(s, rows, cp)));
  MemoryMoment head{"log-probs, the head", {}};
  head.bytes.add(Tag::kWorkspace,
                 batch_bytes(s, batch) + all_rows - gathered + head_bytes(s, batch.head));
  head.bytes.add(Tag::kLogits, s.element == s.wide
                                   ? logits_bytes(s, std::min(batch.head, s.head.rows))
                                   : passing_logits_bytes(s, batch.head));
  head.bytes.add(Tag::kComm, gathered);
  add_logit_stats(s, batch.head, head.bytes);
  return {layer, head};
}

std::vector<MemoryMoment> rollout_moments(const MemoryShapes& shapes, int64_t slots, int64_t prompt,
                                          int64_t capacity) {
  MemoryShapes s = shapes;  // decoding: any number of rows
  s.place.sequence_parallel = false;
  const int64_t rows = std::min(slots * prompt, std::max(prompt, rollout::kPrefillTokens));
  const int64_t blocks = rollout::kv_blocks(slots, capacity);
  MemoryBytes always;
  always.add(Tag::kKv, blocks * model::kKvBlock * s.model.layers * 2 * s.kv * s.element);
  always.add(Tag::kWorkspace, decode_state_bytes(s, slots, capacity));
  const MemoryBytes step = decode_step_bytes(s, slots);
  MemoryMoment prefill{"rollout, prefill", always};
  prefill.bytes.add(Tag::kWorkspace, rows * s.hidden * s.element + layer_workspace(s, rows, 1));
  prefill.bytes.add(Tag::kComm, tp_sum_bytes(s, rows));
  // Graphs of decoding steps keep their memory.
  if (s.cuda && s.place.size == 1) prefill.bytes.add(step);
  MemoryMoment decode{"rollout, a decoding step", always};
  decode.bytes.add(step);
  return {prefill, decode};
}

MemoryMoment gradient_sum_moment(const MemoryShapes& s, const model::ParameterLayout& layout,
                                 int64_t pool) {
  int64_t partial = 0, replicated = 0;
  for (const model::ParamSpec& spec : layout.specs()) {
    for (const model::HfPiece& piece : spec.pieces) {
      const int64_t count = spec.range_of(piece).count;
      if (piece.kind == model::TpKind::kPartial) partial += count;
      if (piece.kind == model::TpKind::kKvReplicated) replicated += count;
    }
  }
  MemoryMoment moment{"gradient's sum", {}};
  const int64_t over_tp = s.wide * std::max(partial, replicated * (1 + layout.kv_replicas()));
  const int64_t over_pool = pool > 1 ? reduction_bytes(s, layout.numel() * s.wide) : 0;
  moment.bytes.add(Tag::kComm, std::max(over_tp + reduction_bytes(s, partial * s.wide), over_pool));
  return moment;
}

}  // namespace verlcpp::train
