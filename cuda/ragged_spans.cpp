#include "cuda/ragged_spans.h"

#include <array>
#include <utility>

#include "cuda/check.h"

namespace verlcpp::cuda {
namespace {

/// What backend_state holds. The offsets count elements, so they belong to these heads.
struct RaggedSpans {
  int64_t heads = 0, kv_heads = 0, head_dim = 0;
  std::vector<RaggedGroup> whole, by_length;
  std::array<bool, 2> called{};  // forward, backward
};

/// The group's order on the device; null for all documents in their own.
std::shared_ptr<std::byte> upload_order(cudaStream_t stream, MemoryPool& pool,
                                        const std::vector<int32_t>& order) {
  if (order.empty()) return nullptr;
  const size_t bytes = order.size() * sizeof(int32_t);
  auto memory = pool.allocate(static_cast<int64_t>(bytes), MemoryTag::kWorkspace);
  check(cudaMemcpyAsync(memory.get(), order.data(), bytes, cudaMemcpyHostToDevice, stream),
        "attention");
  return memory;
}

RaggedGroup upload_group(cudaStream_t stream, MemoryPool& pool, const AttentionArgs& args,
                         DocumentGroup group) {
  const int64_t entries = group.bucket + 1;
  constexpr auto kWide = static_cast<int64_t>(sizeof(int64_t));
  constexpr auto kNarrow = static_cast<int64_t>(sizeof(int32_t));
  const auto order = upload_order(stream, pool, group.order);
  RaggedGroup ragged{.group = std::move(group), .memory = nullptr};
  const int64_t bucket = ragged.group.bucket;
  ragged.memory = pool.allocate(entries * 3 * kWide + bucket * 2 * kNarrow, MemoryTag::kWorkspace);
  auto* offsets = reinterpret_cast<int64_t*>(ragged.memory.get());
  auto* lengths = reinterpret_cast<int32_t*>(offsets + 3 * entries);
  ragged.arrays = {.q_offset = offsets,
                   .kv_offset = offsets + entries,
                   .lse_offset = offsets + 2 * entries,
                   .q_length = lengths,
                   .kv_length = lengths + bucket};
  fill_ragged(stream, args, ragged.group.documents, bucket,
              reinterpret_cast<const int32_t*>(order.get()), ragged.arrays);
  return ragged;
}

RaggedSpans& state_of(const AttentionArgs& args, const AttentionSpans& spans) {
  auto state = std::static_pointer_cast<RaggedSpans>(spans.backend_state);
  const auto shape = [](const auto& x) { return std::array{x.heads, x.kv_heads, x.head_dim}; };
  if (!state || shape(*state) != shape(args)) {
    state = std::make_shared<RaggedSpans>();
    state->heads = args.heads;
    state->kv_heads = args.kv_heads;
    state->head_dim = args.head_dim;
    spans.backend_state = state;
  }
  return *state;
}

}  // namespace

const std::vector<RaggedGroup>& ragged_groups(cudaStream_t stream, MemoryPool& pool,
                                              const AttentionArgs& args,
                                              const AttentionSpans& spans, bool by_length) {
  RaggedSpans& state = state_of(args, spans);
  std::vector<RaggedGroup>& groups = by_length ? state.by_length : state.whole;
  if (groups.empty()) {
    for (DocumentGroup& group : document_groups(spans.q_lengths, spans.kv_lengths, by_length)) {
      groups.push_back(upload_group(stream, pool, args, std::move(group)));
    }
  }
  return groups;
}

bool first_call(const AttentionArgs& args, const AttentionSpans& spans, bool backward) {
  return !std::exchange(state_of(args, spans).called[backward ? 1 : 0], true);
}

}  // namespace verlcpp::cuda
