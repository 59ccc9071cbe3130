#include <utility>

#include "model/transformer.h"

namespace verlcpp::model {
namespace {

/// Drops what the layer's policy computes again in backward.
LayerSaved keep(LayerSaved s, const Saved& saved, int64_t layer) {
  if (saved.policy.empty()) return s;
  switch (saved.policy.at(static_cast<size_t>(layer))) {
    case Recompute::kNone:
      return s;
    case Recompute::kSelective:
      s.o_TNH = s.lse_TN = {};
      return s;
    case Recompute::kFull: {
      LayerSaved input_only;
      input_only.input_tD = std::move(s.input_tD);
      return input_only;
    }
  }
  return s;
}

/// TensorParallel::reduced hands what it sums back, or with sequence parallelism a tensor of its
/// own.
MemoryTag tag_of_sum(const TensorParallel& tp, MemoryTag tag) {
  return tp.place().sequence_parallel ? MemoryTag::kWorkspace : tag;
}

}  // namespace

/// The layer's input and its norm.
void Transformer::start_layer(const LayerTensors& w, ResidualStream stream, LayerSaved& s,
                              MemoryTag tag) const {
  const Shape& shape = stream.base_tD.shape();
  s.norm1_tD = empty(shape, tag);
  s.rstd1_t = empty_stats({shape[0]}, tag);
  if (stream.delta_tD.defined()) {
    s.input_tD = stream.delta_tD;  // the sum takes its place
    backend_.add_rms_norm(s.input_tD, s.norm1_tD, s.rstd1_t, stream.base_tD, stream.delta_tD,
                          w.input_norm_D, config_.rms_norm_eps);
  } else {
    s.input_tD = stream.base_tD;
    backend_.rms_norm(s.norm1_tD, s.rstd1_t, s.input_tD, w.input_norm_D, config_.rms_norm_eps);
  }
}

void Transformer::normalise_qk(const LayerTensors& w, const Tensor& rope_TH, LayerSaved& s,
                               MemoryTag tag) const {
  const int64_t rows = s.q_TNH.dim(0), head_dim = config_.head_dim;
  const int64_t q_rows = rows * shard_.heads, k_rows = rows * shard_.kv_heads;
  s.q_pre_TNH = std::exchange(s.q_TNH, empty({rows, shard_.heads, head_dim}, tag));
  s.k_pre_TKH = std::exchange(s.k_TKH, empty({rows, shard_.kv_heads, head_dim}, tag));
  s.q_rstd = empty_stats({q_rows}, tag);
  s.k_rstd = empty_stats({k_rows}, tag);
  backend_.rms_norm(s.q_TNH.view({q_rows, head_dim}), s.q_rstd,
                    s.q_pre_TNH.view({q_rows, head_dim}), w.q_norm_H, config_.rms_norm_eps);
  backend_.rms_norm(s.k_TKH.view({k_rows, head_dim}), s.k_rstd,
                    s.k_pre_TKH.view({k_rows, head_dim}), w.k_norm_H, config_.rms_norm_eps);
  backend_.rope(s.q_TNH, rope_TH, false);
  backend_.rope(s.k_TKH, rope_TH, false);
}

void Transformer::project_qkv(const LayerTensors& w, const TensorParallel& tp,
                              const Tensor& rope_TH, LayerSaved& s, MemoryTag tag) const {
  const Tensor norm1_TD = tp.gathered(s.norm1_tD);
  const int64_t rows = norm1_TD.dim(0);
  const Tensor qkv_TX = empty({rows, w.qkv_XD.dim(0)}, MemoryTag::kWorkspace);
  backend_.matmul(qkv_TX, norm1_TD, w.qkv_XD, false, true, false);
  s.q_TNH = empty({rows, shard_.heads, config_.head_dim}, tag);
  s.k_TKH = empty({rows, shard_.kv_heads, config_.head_dim}, tag);
  s.v_TKH = empty({rows, shard_.kv_heads, config_.head_dim}, tag);
  const bool rotate = !config_.qk_norm;  // else that norm comes in between
  backend_.split_qkv(s.q_TNH, s.k_TKH, s.v_TKH, qkv_TX, w.qkv_bias_X, rotate ? rope_TH : Tensor());
  if (config_.qk_norm) normalise_qk(w, rope_TH, s, tag);
}

void Transformer::run_attention(const DeviceBatch& batch, const ContextParallelAttention& attention,
                                LayerSaved& s, MemoryTag tag) const {
  s.o_TNH = empty(s.q_TNH.shape(), tag);
  s.lse_TN = empty_stats({batch.rows, shard_.heads}, tag);
  attention.forward(batch.attention, attention_scale_, s.q_TNH, s.k_TKH, s.v_TKH, s.o_TNH,
                    s.lse_TN);
}

Tensor Transformer::row_parallel(const TensorParallel& tp, const Tensor& x_TF, const Tensor& w_DF,
                                 MemoryTag tag) const {
  const Tensor part_TD = empty({x_TF.dim(0), config_.hidden}, tag_of_sum(tp, tag));
  backend_.matmul(part_TD, x_TF, w_DF, false, true, false);
  return tp.reduced(part_TD, tag);
}

void Transformer::run_mlp_up(const LayerTensors& w, const TensorParallel& tp, LayerSaved& s,
                             MemoryTag tag) const {
  const int64_t rows = s.o_TNH.dim(0);
  s.mid_tD = row_parallel(tp, s.o_TNH.view({rows, w.o_DX.dim(1)}), w.o_DX, tag);
  s.norm2_tD = empty(s.mid_tD.shape(), tag);
  s.rstd2_t = empty_stats({s.mid_tD.dim(0)}, tag);
  backend_.add_rms_norm(s.mid_tD, s.norm2_tD, s.rstd2_t, s.input_tD, s.mid_tD, w.post_norm_D,
                        config_.rms_norm_eps);
  // Backward needs gate and up; forward alone can do without memory for them.
  const bool passing = tag == MemoryTag::kWorkspace && statistics_dtype(dtype_) != dtype_ &&
                       gates_in_registers(rows, shard_.ffn, config_.hidden);
  if (!passing) s.gate_up_T2F = empty({rows, 2 * shard_.ffn}, tag);
  s.act_TF = empty({rows, shard_.ffn}, tag);
  backend_.gate_up(s.act_TF, s.gate_up_T2F, tp.gathered(s.norm2_tD), w.gate_up_2FD);
}

ResidualStream Transformer::finish_layer(const LayerTensors& w, const TensorParallel& tp,
                                         LayerSaved& s, MemoryTag tag) const {
  run_mlp_up(w, tp, s, tag);
  return {.base_tD = s.mid_tD, .delta_tD = row_parallel(tp, s.act_TF, w.down_DF, tag)};
}

/// The sum behind the last layer; it takes delta's place.
Tensor Transformer::hidden(const ResidualStream& stream) const {
  if (!stream.delta_tD.defined()) return stream.base_tD;
  backend_.add(stream.delta_tD, stream.base_tD, stream.delta_tD);
  return stream.delta_tD;
}

Tensor Transformer::embed(const ParameterBuffer& weights, const TensorParallel& tp,
                          const Tensor& token_ids_T, MemoryTag tag) const {
  const Tensor part_TD = empty({token_ids_T.numel(), config_.hidden}, tag_of_sum(tp, tag));
  backend_.embedding(part_TD, weights.at("embed_tokens.weight"), token_ids_T, shard_.first_token);
  return tp.reduced(part_TD, tag);
}

Tensor Transformer::run_layers(const ParameterBuffer& weights, const DeviceBatch& batch,
                               const ContextParallelAttention& attention, Saved* saved) const {
  const MemoryTag tag = saved ? MemoryTag::kSaved : MemoryTag::kWorkspace;
  ResidualStream stream{.base_tD = embed(weights, tp_, batch.token_ids_T, tag), .delta_tD = {}};
  for (int64_t layer = 0; layer < config_.layers; ++layer) {
    beat();
    const LayerTensors w = layer_tensors(weights, layer);
    LayerSaved s;
    start_layer(w, std::exchange(stream, {}), s, tag);
    project_qkv(w, tp_, batch.rope_TH, s, tag);
    run_attention(batch, attention, s, tag);
    stream = finish_layer(w, tp_, s, tag);
    if (saved) saved->layers.push_back(keep(std::move(s), *saved, layer));
  }
  const Tensor hidden_tD = hidden(std::exchange(stream, {}));
  return tp_.gathered(hidden_tD);
}

TokenOutputs Transformer::forward(const ParameterBuffer& weights, const DeviceBatch& batch,
                                  const ContextParallelAttention& attention) const {
  return run_head(weights, run_layers(weights, batch, attention, nullptr), batch);
}

}  // namespace verlcpp::model
