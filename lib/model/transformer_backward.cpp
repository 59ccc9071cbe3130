#include <utility>

#include "model/transformer.h"

// The mirror of transformer_forward.cpp. For y = x W^T: d_x = d_y W and d_W += d_y^T x.

namespace verlcpp::model {

void Transformer::restore(const LayerTensors& w, const DeviceBatch& batch,
                          const ContextParallelAttention& attention, LayerSaved& s) const {
  const bool full = !s.q_TNH.defined();
  if (full) {
    start_layer(w, {.base_tD = s.input_tD, .delta_tD = {}}, s, MemoryTag::kSaved);
    project_qkv(w, tp_, batch.rope_TH, s, MemoryTag::kSaved);
  }
  if (!s.o_TNH.defined()) run_attention(batch, attention, s, MemoryTag::kSaved);
  if (full) run_mlp_up(w, tp_, s, MemoryTag::kSaved);
}

Tensor Transformer::mlp_backward(const LayerTensors& w, const LayerTensors& g, const LayerSaved& s,
                                 const Tensor& d_hidden_tD, bool add) const {
  const Tensor d_hidden_TD = tp_.gathered(d_hidden_tD);
  const Tensor d_act_TF = empty(s.act_TF.shape(), MemoryTag::kWorkspace);
  backend_.matmul(d_act_TF, d_hidden_TD, w.down_DF, false, false, false);
  backend_.matmul(g.down_DF, d_hidden_TD, s.act_TF, true, false, add);
  const Tensor d_gate_up_T2F = empty(s.gate_up_T2F.shape(), MemoryTag::kWorkspace);
  backend_.swiglu_backward(d_gate_up_T2F, d_act_TF, s.gate_up_T2F);
  const Tensor d_norm2_TD = empty(d_hidden_TD.shape(), MemoryTag::kWorkspace);
  backend_.matmul(d_norm2_TD, d_gate_up_T2F, w.gate_up_2FD, false, false, false);
  backend_.matmul(g.gate_up_2FD, d_gate_up_T2F, tp_.gathered(s.norm2_tD), true, false, add);
  const Tensor d_mid_tD = tp_.reduced(d_norm2_TD);
  backend_.rms_norm_backward(d_mid_tD, g.post_norm_D, d_mid_tD, s.mid_tD, w.post_norm_D, s.rstd2_t,
                             d_hidden_tD);
  return d_mid_tD;
}

Tensor Transformer::attention_backward(const LayerTensors& w, const LayerTensors& g,
                                       const LayerSaved& s, const DeviceBatch& batch,
                                       const ContextParallelAttention& attention,
                                       const Tensor& d_mid_tD, bool add) const {
  const Tensor d_mid_TD = tp_.gathered(d_mid_tD);
  const Shape flat_o{batch.rows, w.o_DX.dim(1)};
  const Tensor d_o_TNH = empty(s.o_TNH.shape(), MemoryTag::kWorkspace);
  backend_.matmul(d_o_TNH.view(flat_o), d_mid_TD, w.o_DX, false, false, false);
  backend_.matmul(g.o_DX, d_mid_TD, s.o_TNH.view(flat_o), true, false, add);

  const Tensor d_q_TNH = empty(s.q_TNH.shape(), MemoryTag::kWorkspace);
  const Tensor d_k_TKH = empty(s.k_TKH.shape(), MemoryTag::kWorkspace);
  const Tensor d_v_TKH = empty(s.v_TKH.shape(), MemoryTag::kWorkspace);
  attention.backward(batch.attention, attention_scale_, s.q_TNH, s.k_TKH, s.v_TKH, s.o_TNH,
                     s.lse_TN, d_o_TNH, d_q_TNH, d_k_TKH, d_v_TKH);
  return qkv_backward(w, g, s, batch.rope_TH, d_q_TNH, d_k_TKH, d_v_TKH, d_mid_tD, add);
}

Tensor Transformer::qkv_backward(const LayerTensors& w, const LayerTensors& g, const LayerSaved& s,
                                 const Tensor& rope_TH, const Tensor& d_q_TNH,
                                 const Tensor& d_k_TKH, const Tensor& d_v_TKH,
                                 const Tensor& d_mid_tD, bool add) const {
  const int64_t rows = d_q_TNH.dim(0);
  if (config_.qk_norm) {
    backend_.rope(d_q_TNH, rope_TH, true);
    backend_.rope(d_k_TKH, rope_TH, true);
    const Shape q_rows{rows * shard_.heads, config_.head_dim};
    const Shape k_rows{rows * shard_.kv_heads, config_.head_dim};
    backend_.rms_norm_backward(d_q_TNH.view(q_rows), g.q_norm_H, d_q_TNH.view(q_rows),
                               s.q_pre_TNH.view(q_rows), w.q_norm_H, s.q_rstd, {});
    backend_.rms_norm_backward(d_k_TKH.view(k_rows), g.k_norm_H, d_k_TKH.view(k_rows),
                               s.k_pre_TKH.view(k_rows), w.k_norm_H, s.k_rstd, {});
  }
  const Tensor d_qkv_TX = empty({rows, w.qkv_XD.dim(0)}, MemoryTag::kWorkspace);
  backend_.split_qkv_backward(d_qkv_TX, g.qkv_bias_X, d_q_TNH, d_k_TKH, d_v_TKH,
                              config_.qk_norm ? Tensor() : rope_TH);
  const Tensor d_norm1_TD = empty({rows, config_.hidden}, MemoryTag::kWorkspace);
  backend_.matmul(d_norm1_TD, d_qkv_TX, w.qkv_XD, false, false, false);
  backend_.matmul(g.qkv_XD, d_qkv_TX, tp_.gathered(s.norm1_tD), true, false, add);
  const Tensor d_input_tD = tp_.reduced(d_norm1_TD);
  backend_.rms_norm_backward(d_input_tD, g.input_norm_D, d_input_tD, s.input_tD, w.input_norm_D,
                             s.rstd1_t, d_mid_tD);
  return d_input_tD;
}

void Transformer::layers_backward(const ParameterBuffer& weights, const DeviceBatch& batch,
                                  const ContextParallelAttention& attention, Saved& saved,
                                  Tensor d_hidden_tD, const ParameterBuffer& grad, bool add) const {
  for (int64_t layer = config_.layers - 1; layer >= 0; --layer) {
    beat();
    const LayerTensors w = layer_tensors(weights, layer), g = layer_tensors(grad, layer);
    restore(w, batch, attention, saved.layers.back());
    const Tensor d_mid_tD = mlp_backward(w, g, saved.layers.back(), d_hidden_tD, add);
    d_hidden_tD = {};
    d_hidden_tD = attention_backward(w, g, saved.layers.back(), batch, attention, d_mid_tD, add);
    saved.layers.pop_back();
  }
  backend_.embedding_backward(grad.at("embed_tokens.weight"), tp_.gathered(d_hidden_tD),
                              batch.token_ids_T, shard_.first_token);
}

/// The products write every other gradient, also of no rows; the head's has none without rows.
void Transformer::clear_what_adds(const DeviceBatch& batch, const ParameterBuffer& grad) const {
  backend_.fill_zero(grad.slice(grad.layout().undecayed()));
  const bool no_product = batch.head_rows_R.numel() == 0;
  if (no_product) backend_.fill_zero(grad.at(head_name()));
  if (!config_.tied_embeddings) backend_.fill_zero(grad.at("embed_tokens.weight"));
}

void Transformer::train(const ParameterBuffer& weights, const DeviceBatch& batch,
                        const ContextParallelAttention& attention, std::vector<Recompute> policy,
                        const TokenLoss& loss, const ParameterBuffer& grad, bool add) const {
  Saved saved;
  saved.policy = std::move(policy);
  normalise_head(weights, run_layers(weights, batch, attention, &saved), batch.head_rows_R, saved,
                 MemoryTag::kSaved);
  if (!add) clear_what_adds(batch, grad);
  Tensor d_hidden_tD;
  {  // neither the head's logits nor the gradient of its input live on
    const Tensor d_input_RD = train_head(weights, batch, saved, loss, grad, add);
    d_hidden_tD = head_input_backward(weights, batch, saved, d_input_RD, grad);
  }
  layers_backward(weights, batch, attention, saved, std::move(d_hidden_tD), grad, add);
}

}  // namespace verlcpp::model
