#include <algorithm>

#include "base/error.h"
#include "model/transformer.h"

// The head: final norm, this TP rank's columns of the logits, log-probs and entropy, and the way
// back. All TP ranks cut the rows alike: a fused head's chunks sum up over them.

namespace verlcpp::model {

HeadChunks head_chunks(int64_t vocab, DType dtype, int64_t bytes) {
  constexpr int64_t kTile = 128, kChunksOfGroup = 8;
  const int64_t wide = size_of(statistics_dtype(dtype)), narrow = size_of(dtype);
  const auto rows = [&](int64_t bytes_of_entry) {
    const int64_t fit = bytes / (std::max<int64_t>(1, vocab) * bytes_of_entry);
    return fit < kTile ? std::max<int64_t>(1, fit) : fit / kTile * kTile;
  };
  const int64_t fused = rows(2 * wide + kChunksOfGroup * narrow);
  return {.rows = rows(wide), .fused_rows = fused, .fused_group = kChunksOfGroup * fused};
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

TokenOutputs Transformer::run_head(const ParameterBuffer& weights, const Tensor& hidden_TD,
                                   const DeviceBatch& batch, Saved& s, bool keep) const {
  const MemoryTag tag = keep ? MemoryTag::kSaved : MemoryTag::kWorkspace;
  normalise_head(weights, hidden_TD, batch.head_rows_R, s, tag);
  const int64_t rows = batch.head_rows_R.numel();
  const int64_t chunk = keep ? rows : std::min(rows, head_chunks_.rows);
  const Tensor logits_CV = empty_stats({chunk, shard_.vocab}, MemoryTag::kLogits);
  const Tensor stats_R4 = backend_.allocate(DType::kFloat64, {rows, 4}, MemoryTag::kWorkspace);
  for (int64_t first = 0; first < rows; first += chunk) {
    const int64_t count = std::min(chunk, rows - first);
    const Tensor logits = logits_CV.rows(0, count);
    backend_.matmul(logits, s.head_input_RD.rows(first, count), weights.at(head_name()), false,
                    true, false);
    backend_.logit_stats(stats_R4.rows(first, count), logits, batch.labels_R.rows(first, count),
                         batch.temperature_R.rows(first, count), shard_.first_token);
  }
  if (keep) s.logits_RV = logits_CV;
  s.lse_R = empty_stats({rows}, tag);
  s.entropy_R = empty_stats({rows}, tag);
  const Tensor log_prob_R = empty_stats({rows}, tag);
  backend_.token_log_prob(log_prob_R, s.entropy_R, s.lse_R, tp_.all_gather(stats_R4));
  return {log_prob_R, s.entropy_R};
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

/// From the log-probs and entropies to the head's input, chunk by chunk of rows, so that there is
/// never a second tensor of the size of all logits.
Tensor Transformer::logits_backward(const ParameterBuffer& weights, const DeviceBatch& batch,
                                    const Saved& s, const Tensor& d_log_prob_R,
                                    const Tensor& d_entropy_R, const ParameterBuffer& grad) const {
  const Tensor weight_VD = weights.at(head_name()), d_weight_VD = grad.at(head_name());
  const int64_t rows = batch.head_rows_R.numel(), chunk = std::min(rows, head_chunks_.rows);
  const bool in_place = statistics_dtype(dtype_) == dtype_;
  const Tensor d_logits_CV = in_place ? Tensor() : empty({chunk, shard_.vocab}, MemoryTag::kLogits);
  const Tensor d_input_RD = empty(s.head_input_RD.shape(), MemoryTag::kWorkspace);
  for (int64_t first = 0; first < rows; first += chunk) {
    const int64_t count = std::min(chunk, rows - first);
    const auto part = [&](const Tensor& x) { return x.rows(first, count); };
    const Tensor logits = part(s.logits_RV);
    const Tensor d_logits = in_place ? logits : d_logits_CV.rows(0, count);
    backend_.token_log_prob_backward(d_logits, logits, part(batch.labels_R),
                                     part(batch.temperature_R), part(s.entropy_R), part(s.lse_R),
                                     part(d_log_prob_R), part(d_entropy_R), shard_.first_token);
    backend_.matmul(part(d_input_RD), d_logits, weight_VD, false, false, false);
    backend_.matmul(d_weight_VD, d_logits, part(s.head_input_RD), true, false, true);
  }
  return d_input_RD;
}

Transformer::HeadChunk Transformer::start_chunk(const ParameterBuffer& weights,
                                                const DeviceBatch& batch, const Saved& s,
                                                const TokenLoss& loss, int64_t first,
                                                const Tensor& logits_CV) const {
  const int64_t rows = std::min(logits_CV.dim(0), batch.head_rows_R.numel() - first);
  const auto part = [&](const Tensor& x) { return x.rows(first, rows); };
  HeadChunk chunk;
  chunk.first = first;
  chunk.rows = rows;
  chunk.logits_CV = logits_CV.rows(0, rows);
  backend_.matmul(chunk.logits_CV, part(s.head_input_RD), weights.at(head_name()), false, true,
                  false);
  const Tensor stats_C4 = backend_.allocate(DType::kFloat64, {rows, 4}, MemoryTag::kWorkspace);
  backend_.logit_stats(stats_C4, chunk.logits_CV, part(batch.labels_R), part(batch.temperature_R),
                       shard_.first_token);
  chunk.lse_C = empty_stats({rows}, MemoryTag::kWorkspace);
  chunk.entropy_C = empty_stats({rows}, MemoryTag::kWorkspace);
  const Tensor log_prob_C = empty_stats({rows}, MemoryTag::kWorkspace);
  backend_.token_log_prob(log_prob_C, chunk.entropy_C, chunk.lse_C, tp_.all_gather(stats_C4));
  chunk.d_loss = loss(first, log_prob_C, chunk.entropy_C);
  return chunk;
}

// While the loss of a chunk is computed on the host, the GPU makes the logits of the next.
Tensor Transformer::train_head(const ParameterBuffer& weights, const DeviceBatch& batch,
                               const Saved& s, const TokenLoss& loss,
                               const ParameterBuffer& grad) const {
  const Tensor weight_VD = weights.at(head_name()), d_weight_VD = grad.at(head_name());
  const int64_t rows = batch.head_rows_R.numel();
  const Tensor d_input_RD = empty(s.head_input_RD.shape(), MemoryTag::kWorkspace);
  if (rows == 0) return d_input_RD;
  const int64_t size = std::min(rows, head_chunks_.fused_rows);
  const int64_t group = std::min(rows, head_chunks_.fused_group);
  const Tensor logits_CV[] = {
      empty_stats({size, shard_.vocab}, MemoryTag::kLogits),
      empty_stats({std::min(size, rows - size), shard_.vocab}, MemoryTag::kLogits)};
  const Tensor d_logits_GV = empty({group, shard_.vocab}, MemoryTag::kLogits);

  HeadChunk chunk = start_chunk(weights, batch, s, loss, 0, logits_CV[0]);
  int64_t group_first = 0;
  for (int64_t number = 1; chunk.rows > 0; ++number) {
    const int64_t end = chunk.first + chunk.rows;
    HeadChunk next;
    if (end < rows) next = start_chunk(weights, batch, s, loss, end, logits_CV[number % 2]);
    const auto part = [&](const Tensor& x) { return x.rows(chunk.first, chunk.rows); };
    chunk.d_loss.ready.wait();
    backend_.token_log_prob_backward(
        d_logits_GV.rows(chunk.first - group_first, chunk.rows), chunk.logits_CV,
        part(batch.labels_R), part(batch.temperature_R), chunk.entropy_C, chunk.lse_C,
        chunk.d_loss.log_prob_C, chunk.d_loss.entropy_C, shard_.first_token);
    chunk = std::move(next);
    if (end - group_first < group && end < rows) continue;
    const int64_t count = end - group_first;
    const Tensor d_logits = d_logits_GV.rows(0, count);
    const Tensor input = s.head_input_RD.rows(group_first, count);
    backend_.matmul(d_input_RD.rows(group_first, count), d_logits, weight_VD, false, false, false);
    backend_.matmul(d_weight_VD, d_logits, input, true, false, true);
    group_first = end;
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
