#include <numeric>
#include <utility>

#include "base/error.h"
#include "model/transformer.h"

// Prompts into a paged KV cache, and one token a sequence out of it.

namespace verlcpp::model {
namespace {

/// Documents laid end to end: their starts, and each row's position in its own.
struct Packed {
  std::vector<int32_t> offsets, positions;
};

Packed packed(std::span<const int32_t> lengths) {
  Packed p;
  for (const int32_t length : lengths) {
    expects(length >= 1, "a prompt to prefill has a token");
    p.offsets.push_back(static_cast<int32_t>(p.positions.size()));
    for (int32_t i = 0; i < length; ++i) p.positions.push_back(i);
  }
  return p;
}

Tensor as_rows(const Tensor& x_CKH) {
  return x_CKH.view({x_CKH.dim(0), x_CKH.dim(1) * x_CKH.dim(2)});
}

}  // namespace

Tensor Transformer::upload_ids(std::span<const int32_t> ids) const {
  return verlcpp::upload<int32_t>(backend_, ids, {static_cast<int64_t>(ids.size())},
                                  MemoryTag::kWorkspace);
}

KvCache Transformer::make_kv_cache(int64_t blocks) const {
  KvCache cache{.blocks = blocks, .k_CKH = {}, .v_CKH = {}};
  const Shape shape{blocks * kKvBlock, shard_.kv_heads, config_.head_dim};
  for (int64_t layer = 0; layer < config_.layers; ++layer) {
    cache.k_CKH.push_back(empty(shape, MemoryTag::kKv));
    cache.v_CKH.push_back(empty(shape, MemoryTag::kKv));
  }
  return cache;
}

void Transformer::write_kv(const KvCache& cache, int64_t layer, const LayerSaved& s,
                           const Tensor& rows_T) const {
  const auto l = static_cast<size_t>(layer);
  backend_.scatter_rows(as_rows(cache.k_CKH[l]), as_rows(s.k_TKH), rows_T);
  backend_.scatter_rows(as_rows(cache.v_CKH[l]), as_rows(s.v_TKH), rows_T);
}

void Transformer::prefill(const ParameterBuffer& weights, const KvCache& cache,
                          std::span<const int32_t> token_ids, std::span<const int32_t> lengths,
                          std::span<const int32_t> rows) const {
  const Packed p = packed(lengths);
  expects(p.positions.size() == token_ids.size() && rows.size() == token_ids.size(),
          "lengths must add up to the prompts' tokens, each with its cache row");
  check_ids(token_ids);
  const AttentionSpans spans = upload_spans(backend_, p.offsets, lengths, p.offsets, lengths);
  const Tensor rope_TH = rope_table(p.positions), rows_T = upload_ids(rows);
  const TensorParallel tp = tp_.whole_rows();
  ResidualStream stream{.base_tD = embed(weights, tp, upload_ids(token_ids), MemoryTag::kWorkspace),
                        .delta_tD = {}};
  for (int64_t layer = 0; layer < config_.layers; ++layer) {
    beat();
    const LayerTensors w = layer_tensors(weights, layer);
    LayerSaved s;
    start_layer(w, std::exchange(stream, {}), s, MemoryTag::kWorkspace);
    project_qkv(w, tp, rope_TH, s, MemoryTag::kWorkspace);
    write_kv(cache, layer, s, rows_T);
    if (layer + 1 == config_.layers) return;  // nobody asks for what comes out
    s.o_TNH = empty(s.q_TNH.shape(), MemoryTag::kWorkspace);
    s.lse_TN = empty_stats({s.q_TNH.dim(0), shard_.heads}, MemoryTag::kWorkspace);
    backend_.attention_block(AttentionMask::kCausal, spans, attention_scale_, s.q_TNH, s.k_TKH,
                             s.v_TKH, s.o_TNH, s.lse_TN);
    stream = finish_layer(w, tp, s, MemoryTag::kWorkspace);
  }
}

void Transformer::copy_kv(const KvCache& cache, std::span<const int32_t> from,
                          std::span<const int32_t> to) const {
  expects(from.size() == to.size(), "one cache row to each");
  if (from.empty()) return;
  const Tensor from_R = upload_ids(from), to_R = upload_ids(to);
  const Tensor moved_RX =
      empty({from_R.numel(), shard_.kv_heads * config_.head_dim}, MemoryTag::kWorkspace);
  for (const auto* side : {&cache.k_CKH, &cache.v_CKH}) {
    for (const Tensor& x_CKH : *side) {
      backend_.gather_rows(moved_RX, as_rows(x_CKH), from_R);
      backend_.scatter_rows(as_rows(x_CKH), moved_RX, to_R);
    }
  }
}

Tensor Transformer::decode(const ParameterBuffer& weights, const KvCache& cache,
                           const Tensor& token_ids_B, const KvPages& pages) const {
  expects(pages.block == kKvBlock, "the pages are those of the KV cache");
  const TensorParallel tp = tp_.whole_rows();
  const Tensor rope_BH =
      empty_stats({token_ids_B.numel(), config_.head_dim}, MemoryTag::kWorkspace);
  backend_.rope_table(rope_BH, pages.positions_B, inv_freq_);
  ResidualStream stream{.base_tD = embed(weights, tp, token_ids_B, MemoryTag::kWorkspace),
                        .delta_tD = {}};
  for (int64_t layer = 0; layer < config_.layers; ++layer) {
    const auto l = static_cast<size_t>(layer);
    const LayerTensors w = layer_tensors(weights, layer);
    LayerSaved s;
    start_layer(w, std::exchange(stream, {}), s, MemoryTag::kWorkspace);
    project_qkv(w, tp, rope_BH, s, MemoryTag::kWorkspace);
    s.o_TNH = empty(s.q_TNH.shape(), MemoryTag::kWorkspace);
    backend_.decode_attention(pages, attention_scale_, s.q_TNH, s.k_TKH, s.v_TKH, cache.k_CKH[l],
                              cache.v_CKH[l], s.o_TNH);
    stream = finish_layer(w, tp, s, MemoryTag::kWorkspace);
  }
  return whole_vocabulary(decode_logits(weights, hidden(std::exchange(stream, {}))));
}

/// head_logits of all rows.
Tensor Transformer::decode_logits(const ParameterBuffer& weights, const Tensor& hidden_BD) const {
  const int64_t rows = hidden_BD.dim(0);
  const Tensor input_BD = empty(hidden_BD.shape(), MemoryTag::kWorkspace);
  const Tensor rstd_B = empty_stats({rows}, MemoryTag::kWorkspace);
  backend_.rms_norm(input_BD, rstd_B, hidden_BD, weights.at("norm.weight"), config_.rms_norm_eps);
  const Tensor logits_BV = empty_stats({rows, shard_.vocab}, MemoryTag::kLogits);
  backend_.matmul(logits_BV, input_BD, weights.at(head_name()), false, true, false);
  return logits_BV;
}

}  // namespace verlcpp::model
