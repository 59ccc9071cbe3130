#include <algorithm>
#include <optional>

#include "model/transformer.h"

// The head: final norm, this TP rank's columns of the logits, log-probs and entropy, and the way
// back. All TP ranks cut the rows alike: chunks sum up over them.

namespace verlcpp::model {

HeadChunks head_chunks(int64_t vocab, DType dtype, int64_t bytes) {
  constexpr int64_t kTile = 128;
  const auto rows = [&](int64_t bytes_of_entry) {
    const int64_t fit = bytes / (std::max<int64_t>(1, vocab) * bytes_of_entry);
    return fit < kTile ? std::max<int64_t>(1, fit) : fit / kTile * kTile;
  };
  return {.rows = rows(size_of(statistics_dtype(dtype))), .fused_rows = rows(2 * size_of(dtype))};
}

int64_t HeadChunks::of_pair(int64_t head_rows, bool fused) const {
  constexpr int64_t kTiles =
      256;  // rows that a GPU takes together, so that no two chunks share them
  const int64_t half = (head_rows + 1) / 2;
  return std::min(head_rows, fused ? fused_rows : (half + kTiles - 1) / kTiles * kTiles);
}

void Transformer::normalise_head(const ParameterBuffer& weights, const Tensor& hidden_TD,
                                 const Tensor& rows_R, Saved& s, MemoryTag tag) const {
  const int64_t rows = rows_R.numel();
  s.final_input_RD = empty({rows, config_.hidden}, tag);
  s.final_rstd_R = empty_stats({rows}, tag);
  s.head_input_RD = empty({rows, config_.hidden}, tag);
  backend_.gather_rows(s.final_input_RD, hidden_TD, rows_R);
  backend_.rms_norm(s.head_input_RD, s.final_rstd_R, s.final_input_RD, weights.at("norm.weight"),
                    config_.rms_norm_eps);
}

// In a narrow dtype logits pass by in registers, else in memory, which `kept` may give: for all
// rows or for a chunk of them.
Tensor Transformer::head_stats(const ParameterBuffer& weights, const DeviceBatch& batch,
                               const Saved& s, int64_t first, int64_t rows,
                               const KeptLogits& kept) const {
  const bool narrow = statistics_dtype(dtype_) != dtype_;
  const int64_t held = kept.values_RV.defined() ? kept.values_RV.dim(0) : rows;
  const bool whole = !narrow || head_in_registers(shard_.vocab, config_.hidden);
  const int64_t chunk = whole ? held : std::min(held, head_chunks_.rows);
  const Tensor stats_R4 = backend_.allocate(DType::kFloat64, {rows, 4}, MemoryTag::kWorkspace);
  for (int64_t done = 0; done < rows; done += chunk) {
    const int64_t count = std::min(chunk, rows - done);
    const auto part = [&](const Tensor& x) { return x.rows(first + done, count); };
    backend_.head_stats(stats_R4.rows(done, count), kept.rows(held == rows ? done : 0, count),
                        part(s.head_input_RD), weights.at(head_name()), part(batch.labels_R),
                        part(batch.temperature_R), shard_.first_token);
  }
  return stats_R4;
}

TokenOutputs Transformer::run_head(const ParameterBuffer& weights, const Tensor& hidden_TD,
                                   const DeviceBatch& batch) const {
  Saved s;
  normalise_head(weights, hidden_TD, batch.head_rows_R, s, MemoryTag::kWorkspace);
  const int64_t rows = batch.head_rows_R.numel();
  KeptLogits kept;
  if (statistics_dtype(dtype_) == dtype_) {
    kept = allocate_kept(backend_, dtype_, std::min(rows, head_chunks_.rows), shard_.vocab);
  }
  const Tensor stats_R4 = head_stats(weights, batch, s, 0, rows, kept);
  const Tensor lse_R = empty_stats({rows}, MemoryTag::kWorkspace);
  const Tensor entropy_R = empty_stats({rows}, MemoryTag::kWorkspace);
  const Tensor log_prob_R = empty_stats({rows}, MemoryTag::kWorkspace);
  backend_.token_log_prob(log_prob_R, entropy_R, lse_R, tp_.all_gather(stats_R4));
  return {log_prob_R, entropy_R};
}

Tensor Transformer::head_logits(const ParameterBuffer& weights, const Tensor& hidden_TD,
                                const Tensor& rows_R) const {
  Saved s;
  normalise_head(weights, hidden_TD, rows_R, s, MemoryTag::kWorkspace);
  const Tensor logits_RV = empty_stats({rows_R.numel(), shard_.vocab}, MemoryTag::kLogits);
  backend_.matmul(logits_RV, s.head_input_RD, weights.at(head_name()), false, true, false);
  return logits_RV;
}

Tensor Transformer::whole_vocabulary(const Tensor& logits_RV) const {
  const TpPlace& me = tp_.place();
  if (me.size == 1) return logits_RV;
  // Parts differ by one column at most; the last is one of the widest. What a narrow part has too
  // much is overwritten by its successor.
  const int64_t rows = logits_RV.dim(0), widest = (config_.vocab + me.size - 1) / me.size;
  const Tensor part_RW = empty_stats({rows, widest}, MemoryTag::kWorkspace);
  backend_.fill_zero(part_RW);
  backend_.join_columns(part_RW, logits_RV, 0);
  const Tensor parts_PRW = tp_.all_gather(part_RW);
  const Tensor whole_RV = empty_stats({rows, config_.vocab}, MemoryTag::kLogits);
  for (int64_t p = 0; p < me.size; ++p) {
    backend_.join_columns(whole_RV, parts_PRW.slice(p * rows * widest, {rows, widest}),
                          tp_shard(config_, {.size = me.size, .rank = p}).first_token);
  }
  return whole_RV;
}

Tensor Transformer::logits(const ParameterBuffer& weights, const DeviceBatch& batch,
                           const ContextParallelAttention& attention) const {
  const Tensor hidden_TD = run_layers(weights, batch, attention, nullptr);
  return whole_vocabulary(head_logits(weights, hidden_TD, batch.head_rows_R));
}

Transformer::HeadChunk Transformer::start_chunk(const ParameterBuffer& weights,
                                                const DeviceBatch& batch, const Saved& s,
                                                const TokenLoss& loss, int64_t first,
                                                const KeptLogits& kept) const {
  const int64_t rows = kept.values_RV.dim(0);
  HeadChunk chunk{.first = first, .kept = kept};
  const Tensor stats_C4 = head_stats(weights, batch, s, first, rows, kept);
  chunk.lse_C = empty_stats({rows}, MemoryTag::kWorkspace);
  chunk.entropy_C = empty_stats({rows}, MemoryTag::kWorkspace);
  const Tensor log_prob_C = empty_stats({rows}, MemoryTag::kWorkspace);
  backend_.token_log_prob(log_prob_C, chunk.entropy_C, chunk.lse_C, tp_.all_gather(stats_C4));
  chunk.d_loss = loss(first, log_prob_C, chunk.entropy_C);
  return chunk;
}

void Transformer::finish_chunk(const DeviceBatch& batch, HeadChunk& chunk) const {
  const int64_t rows = chunk.kept.values_RV.dim(0);
  const auto part = [&](const Tensor& x) { return x.rows(chunk.first, rows); };
  chunk.d_loss.ready.wait();
  backend_.token_log_prob_backward(chunk.kept.values_RV.memory_for(dtype_), chunk.kept,
                                   part(batch.labels_R), part(batch.temperature_R), chunk.entropy_C,
                                   chunk.lse_C, chunk.d_loss.log_prob_C, chunk.d_loss.entropy_C,
                                   shard_.first_token);
}

// Two chunks at a time, so that the GPU computes for one while the other's loss is computed on the
// host. Both share the products, of which the one with the head's input visits a whole gradient.
Tensor Transformer::train_head(const ParameterBuffer& weights, const DeviceBatch& batch,
                               const Saved& s, const TokenLoss& loss, const ParameterBuffer& grad,
                               bool add) const {
  const int64_t rows = batch.head_rows_R.numel();
  const int64_t size = head_chunks_.of_pair(rows, fused_head_), pair = std::min(rows, 2 * size);
  const Tensor d_input_RD = empty(s.head_input_RD.shape(), MemoryTag::kWorkspace);
  const KeptLogits kept = allocate_kept(backend_, dtype_, pair, shard_.vocab);
  for (int64_t first = 0; first < rows; first += pair) {
    const int64_t count = std::min(pair, rows - first), early = std::min(size, count);
    HeadChunk one = start_chunk(weights, batch, s, loss, first, kept.rows(0, early));
    std::optional<HeadChunk> other;
    if (early < count) {
      other = start_chunk(weights, batch, s, loss, first + early, kept.rows(early, count - early));
    }
    finish_chunk(batch, one);
    if (other) finish_chunk(batch, *other);
    const Tensor d_logits_CV = kept.values_RV.memory_for(dtype_).rows(0, count);
    backend_.matmul(d_input_RD.rows(first, count), d_logits_CV, weights.at(head_name()), false,
                    false, false);
    backend_.matmul(grad.at(head_name()), d_logits_CV, s.head_input_RD.rows(first, count), true,
                    false, add || first > 0);
  }
  return d_input_RD;
}

Tensor Transformer::head_input_backward(const ParameterBuffer& weights, const DeviceBatch& batch,
                                        const Saved& s, const Tensor& d_input_RD,
                                        const ParameterBuffer& grad) const {
  tp_.all_reduce(d_input_RD);
  backend_.rms_norm_backward(d_input_RD, grad.at("norm.weight"), d_input_RD, s.final_input_RD,
                             weights.at("norm.weight"), s.final_rstd_R, {});
  // Rows outside of the head, pads among them, carry no gradient.
  const Tensor d_hidden_TD = empty({batch.rows, config_.hidden}, MemoryTag::kWorkspace);
  backend_.fill_zero(d_hidden_TD);
  backend_.scatter_rows(d_hidden_TD, d_input_RD, batch.head_rows_R);
  return tp_.own_rows(d_hidden_TD);
}

}  // namespace verlcpp::model
