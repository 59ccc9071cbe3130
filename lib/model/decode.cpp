#include <set>
#include <utility>

#include "base/error.h"
#include "model/transformer.h"

namespace verlcpp::model {
namespace {

// Where the new tokens of one `extend` call go, all of them host values.
struct ExtendPlan {
  std::vector<int32_t> positions_T, cache_rows_T, last_rows_B;
  std::vector<int32_t> q_offset, kv_offset, kv_length;
};

ExtendPlan plan_extend(const KvCache& cache, std::span<const int32_t> slot,
                       std::span<const int32_t> past, std::span<const int32_t> count) {
  expects(slot.size() == past.size() && slot.size() == count.size(),
          "one slot, past and count per sequence");
  ExtendPlan plan;
  std::set<int32_t> used;
  for (size_t i = 0; i < slot.size(); ++i) {
    expects(slot[i] >= 0 && slot[i] < cache.slots && used.insert(slot[i]).second,
            "a cache slot is unknown or used twice");
    expects(count[i] >= 1 && past[i] >= 0 && past[i] + count[i] <= cache.capacity,
            "new tokens must fit the capacity of the KV cache");
    const auto base = static_cast<int32_t>(slot[i] * cache.capacity);
    plan.q_offset.push_back(static_cast<int32_t>(plan.positions_T.size()));
    plan.kv_offset.push_back(base);
    plan.kv_length.push_back(past[i] + count[i]);
    for (int32_t position = past[i]; position < past[i] + count[i]; ++position) {
      plan.positions_T.push_back(position);
      plan.cache_rows_T.push_back(base + position);
    }
    plan.last_rows_B.push_back(static_cast<int32_t>(plan.positions_T.size()) - 1);
  }
  return plan;
}

}  // namespace

KvCache Transformer::make_kv_cache(int64_t slots, int64_t capacity) const {
  KvCache cache{.slots = slots, .capacity = capacity, .k_CKH = {}, .v_CKH = {}};
  const Shape shape{slots * capacity, shard_.kv_heads, config_.head_dim};
  for (int64_t layer = 0; layer < config_.layers; ++layer) {
    cache.k_CKH.push_back(empty(shape, MemoryTag::kKv));
    cache.v_CKH.push_back(empty(shape, MemoryTag::kKv));
  }
  return cache;
}

Tensor Transformer::extend(const ParameterBuffer& weights, KvCache& cache,
                           std::span<const int32_t> token_ids, std::span<const int32_t> slot,
                           std::span<const int32_t> past, std::span<const int32_t> count) const {
  const ExtendPlan plan = plan_extend(cache, slot, past, count);
  expects(plan.positions_T.size() == token_ids.size(), "counts must add up to the new tokens");
  check_ids(token_ids);
  const auto ids = [&](std::span<const int32_t> values) {
    return verlcpp::upload<int32_t>(backend_, values, {static_cast<int64_t>(values.size())},
                                    MemoryTag::kWorkspace);
  };
  const AttentionSpans spans =
      upload_spans(backend_, plan.q_offset, count, plan.kv_offset, plan.kv_length);
  const Tensor rope_TH = rope_table(plan.positions_T), cache_rows_T = ids(plan.cache_rows_T);
  const auto rows = static_cast<int64_t>(token_ids.size());
  const int64_t kv_columns = shard_.kv_heads * config_.head_dim;
  const int64_t cache_rows = cache.slots * cache.capacity;

  const TensorParallel tp = tp_.whole_rows();
  ResidualStream stream{.base_tD = embed(weights, tp, ids(token_ids), MemoryTag::kWorkspace),
                        .delta_tD = {}};
  for (int64_t layer = 0; layer < config_.layers; ++layer) {
    const LayerTensors w = layer_tensors(weights, layer);
    const Tensor& k_CKH = cache.k_CKH[static_cast<size_t>(layer)];
    const Tensor& v_CKH = cache.v_CKH[static_cast<size_t>(layer)];
    LayerSaved s;
    start_layer(w, std::exchange(stream, {}), s, MemoryTag::kWorkspace);
    project_qkv(w, tp, rope_TH, s, MemoryTag::kWorkspace);
    backend_.scatter_rows(k_CKH.view({cache_rows, kv_columns}), s.k_TKH.view({rows, kv_columns}),
                          cache_rows_T);
    backend_.scatter_rows(v_CKH.view({cache_rows, kv_columns}), s.v_TKH.view({rows, kv_columns}),
                          cache_rows_T);
    s.o_TNH = empty(s.q_TNH.shape(), MemoryTag::kWorkspace);
    s.lse_TN = empty_stats({rows, shard_.heads}, MemoryTag::kWorkspace);
    backend_.attention_block(AttentionMask::kBottomRight, spans, attention_scale_, s.q_TNH, k_CKH,
                             v_CKH, s.o_TNH, s.lse_TN);
    stream = finish_layer(w, tp, s, MemoryTag::kWorkspace);
  }
  const Tensor hidden_TD = hidden(std::exchange(stream, {}));
  return whole_vocabulary(head_logits(weights, hidden_TD, ids(plan.last_rows_B)));
}

}  // namespace verlcpp::model
