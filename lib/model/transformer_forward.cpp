#include <utility>

#include "base/error.h"
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
      input_only.input_TD = std::move(s.input_TD);
      return input_only;
    }
  }
  return s;
}

}  // namespace

void Transformer::normalise_qk(const LayerTensors& w, LayerSaved& s, MemoryTag tag) const {
  const int64_t rows = s.q_TNH.dim(0), head_dim = config_.head_dim;
  const int64_t q_rows = rows * config_.heads, k_rows = rows * config_.kv_heads;
  s.q_pre_TNH = std::exchange(s.q_TNH, empty({rows, config_.heads, head_dim}, tag));
  s.k_pre_TKH = std::exchange(s.k_TKH, empty({rows, config_.kv_heads, head_dim}, tag));
  s.q_rstd = empty_stats({q_rows}, tag);
  s.k_rstd = empty_stats({k_rows}, tag);
  backend_.rms_norm(s.q_TNH.view({q_rows, head_dim}), s.q_rstd,
                    s.q_pre_TNH.view({q_rows, head_dim}), w.q_norm_H, config_.rms_norm_eps);
  backend_.rms_norm(s.k_TKH.view({k_rows, head_dim}), s.k_rstd,
                    s.k_pre_TKH.view({k_rows, head_dim}), w.k_norm_H, config_.rms_norm_eps);
}

void Transformer::project_qkv(const LayerTensors& w, const Tensor& positions_T, LayerSaved& s,
                              MemoryTag tag) const {
  const int64_t rows = s.input_TD.dim(0);
  s.norm1_TD = empty({rows, config_.hidden}, tag);
  s.rstd1_T = empty_stats({rows}, tag);
  backend_.rms_norm(s.norm1_TD, s.rstd1_T, s.input_TD, w.input_norm_D, config_.rms_norm_eps);

  const Tensor qkv_TX = empty({rows, w.qkv_XD.dim(0)}, MemoryTag::kWorkspace);
  backend_.matmul(qkv_TX, s.norm1_TD, w.qkv_XD, false, true, false);
  if (config_.qkv_bias) backend_.add_bias(qkv_TX, w.qkv_bias_X);
  s.q_TNH = empty({rows, config_.heads, config_.head_dim}, tag);
  s.k_TKH = empty({rows, config_.kv_heads, config_.head_dim}, tag);
  s.v_TKH = empty({rows, config_.kv_heads, config_.head_dim}, tag);
  backend_.split_qkv(s.q_TNH, s.k_TKH, s.v_TKH, qkv_TX);
  if (config_.qk_norm) normalise_qk(w, s, tag);
  backend_.rope(s.q_TNH, positions_T, inv_freq_, false);
  backend_.rope(s.k_TKH, positions_T, inv_freq_, false);
}

void Transformer::run_attention(const DeviceBatch& batch, const ContextParallelAttention& attention,
                                LayerSaved& s, MemoryTag tag) const {
  s.o_TNH = empty(s.q_TNH.shape(), tag);
  s.lse_TN = empty_stats({batch.rows, config_.heads}, tag);
  attention.forward(batch.attention, attention_scale_, s.q_TNH, s.k_TKH, s.v_TKH, s.o_TNH,
                    s.lse_TN);
}

void Transformer::run_mlp_up(const LayerTensors& w, LayerSaved& s, MemoryTag tag) const {
  const int64_t rows = s.input_TD.dim(0);
  s.mid_TD = empty({rows, config_.hidden}, tag);
  backend_.matmul(s.mid_TD, s.o_TNH.view({rows, w.o_DX.dim(1)}), w.o_DX, false, true, false);
  backend_.add(s.mid_TD, s.input_TD, s.mid_TD);

  s.norm2_TD = empty({rows, config_.hidden}, tag);
  s.rstd2_T = empty_stats({rows}, tag);
  backend_.rms_norm(s.norm2_TD, s.rstd2_T, s.mid_TD, w.post_norm_D, config_.rms_norm_eps);
  s.gate_up_T2F = empty({rows, 2 * config_.ffn}, tag);
  backend_.matmul(s.gate_up_T2F, s.norm2_TD, w.gate_up_2FD, false, true, false);
  s.act_TF = empty({rows, config_.ffn}, tag);
  backend_.swiglu(s.act_TF, s.gate_up_T2F);
}

Tensor Transformer::finish_layer(const LayerTensors& w, LayerSaved& s, MemoryTag tag) const {
  run_mlp_up(w, s, tag);
  const Tensor out_TD = empty(s.mid_TD.shape(), tag);
  backend_.matmul(out_TD, s.act_TF, w.down_DF, false, true, false);
  backend_.add(out_TD, s.mid_TD, out_TD);
  return out_TD;
}

Tensor Transformer::run_layers(const ParameterBuffer& weights, const DeviceBatch& batch,
                               const ContextParallelAttention& attention, Saved* saved) const {
  const MemoryTag tag = saved ? MemoryTag::kSaved : MemoryTag::kWorkspace;
  Tensor hidden_TD = empty({batch.rows, config_.hidden}, tag);
  backend_.embedding(hidden_TD, weights.at("embed_tokens.weight"), batch.token_ids_T);
  for (int64_t layer = 0; layer < config_.layers; ++layer) {
    const LayerTensors w = layer_tensors(weights, layer);
    LayerSaved s;
    s.input_TD = hidden_TD;
    project_qkv(w, batch.positions_T, s, tag);
    run_attention(batch, attention, s, tag);
    hidden_TD = finish_layer(w, s, tag);
    if (saved) saved->layers.push_back(keep(std::move(s), *saved, layer));
  }
  return hidden_TD;
}

void Transformer::run_head(const ParameterBuffer& weights, const Tensor& hidden_TD,
                           const Tensor& rows_R, Saved& s, MemoryTag tag) const {
  const int64_t rows = rows_R.numel();
  s.final_input_RD = empty({rows, config_.hidden}, tag);
  s.final_rstd_R = empty_stats({rows}, tag);
  s.head_input_RD = empty({rows, config_.hidden}, tag);
  s.logits_RV = empty({rows, config_.vocab}, MemoryTag::kLogits);
  backend_.gather_rows(s.final_input_RD, hidden_TD, rows_R);
  backend_.rms_norm(s.head_input_RD, s.final_rstd_R, s.final_input_RD, weights.at("norm.weight"),
                    config_.rms_norm_eps);
  backend_.matmul(s.logits_RV, s.head_input_RD, weights.at(head_name()), false, true, false);
}

TokenOutputs Transformer::forward(const ParameterBuffer& weights, const DeviceBatch& batch,
                                  const ContextParallelAttention& attention, Saved* saved) const {
  const MemoryTag tag = saved ? MemoryTag::kSaved : MemoryTag::kWorkspace;
  if (saved) {
    Saved fresh;
    fresh.policy = std::move(saved->policy);
    *saved = std::move(fresh);
  }
  const Tensor hidden_TD = run_layers(weights, batch, attention, saved);
  Saved inference;
  Saved& s = saved ? *saved : inference;
  run_head(weights, hidden_TD, batch.head_rows_R, s, tag);

  const int64_t rows = batch.head_rows_R.numel();
  s.lse_R = empty_stats({rows}, tag);
  s.entropy_R = empty_stats({rows}, tag);
  const Tensor log_prob_R = empty_stats({rows}, tag);
  backend_.token_log_prob(s.logits_RV, batch.labels_R, batch.temperature_R, log_prob_R, s.entropy_R,
                          s.lse_R);
  return {log_prob_R, s.entropy_R};
}

Tensor Transformer::logits(const ParameterBuffer& weights, const DeviceBatch& batch,
                           const ContextParallelAttention& attention) const {
  const Tensor hidden_TD = run_layers(weights, batch, attention, nullptr);
  Saved s;
  run_head(weights, hidden_TD, batch.head_rows_R, s, MemoryTag::kWorkspace);
  return s.logits_RV;
}

}  // namespace verlcpp::model
