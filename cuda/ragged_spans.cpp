#include "cuda/ragged_spans.h"

#include <algorithm>
#include <array>
#include <bit>
#include <map>
#include <utility>

#include "base/error.h"
#include "cuda/check.h"

namespace verlcpp::cuda {

int64_t power_of_two(int64_t n) {
  return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(n)));
}

namespace {

constexpr int64_t kShortestBucket = 128;

/// What backend_state holds. The offsets count elements, so they belong to these heads.
struct RaggedSpans {
  int64_t heads = 0, kv_heads = 0, head_dim = 0;
  std::vector<RaggedGroup> whole, by_length;
};

int64_t length_bucket(int64_t length) { return std::max(kShortestBucket, power_of_two(length)); }

/// `order`: the documents of the group, on the device; null: all of them.
RaggedGroup make_group(cudaStream_t stream, MemoryPool& pool, const AttentionArgs& args,
                       int64_t documents, int64_t q_bucket, int64_t kv_bucket,
                       const int32_t* order) {
  RaggedGroup group{.documents = documents,
                    .bucket = power_of_two(documents),
                    .q_bucket = q_bucket,
                    .kv_bucket = kv_bucket,
                    .memory = nullptr};
  const int64_t entries = group.bucket + 1;
  constexpr auto kWide = static_cast<int64_t>(sizeof(int64_t));
  constexpr auto kNarrow = static_cast<int64_t>(sizeof(int32_t));
  group.memory =
      pool.allocate(entries * 3 * kWide + group.bucket * 2 * kNarrow, MemoryTag::kWorkspace);
  auto* offsets = reinterpret_cast<int64_t*>(group.memory.get());
  auto* lengths = reinterpret_cast<int32_t*>(offsets + 3 * entries);
  group.arrays = {.q_offset = offsets,
                  .kv_offset = offsets + entries,
                  .lse_offset = offsets + 2 * entries,
                  .q_length = lengths,
                  .kv_length = lengths + group.bucket};
  fill_ragged(stream, args, documents, group.bucket, order, group.arrays);
  return group;
}

/// One group a pair of length buckets, shortest first.
std::vector<RaggedGroup> grouped_by_length(cudaStream_t stream, MemoryPool& pool,
                                           const AttentionArgs& args, const AttentionSpans& spans) {
  std::map<std::pair<int64_t, int64_t>, std::vector<int32_t>> documents_of;
  for (size_t s = 0; s < spans.q_lengths.size(); ++s) {
    const int64_t q = spans.q_lengths[s], kv = spans.kv_lengths[s];
    if (q == 0 || kv == 0) continue;
    documents_of[{length_bucket(q), length_bucket(kv)}].push_back(static_cast<int32_t>(s));
  }
  std::vector<RaggedGroup> groups;
  for (const auto& [buckets, documents] : documents_of) {
    const size_t bytes = documents.size() * sizeof(int32_t);
    const auto order = pool.allocate(static_cast<int64_t>(bytes), MemoryTag::kWorkspace);
    check(cudaMemcpyAsync(order.get(), documents.data(), bytes, cudaMemcpyHostToDevice, stream),
          "attention");
    groups.push_back(make_group(stream, pool, args, static_cast<int64_t>(documents.size()),
                                buckets.first, buckets.second,
                                reinterpret_cast<const int32_t*>(order.get())));
  }
  return groups;
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
  if (by_length) {
    if (state.by_length.empty()) state.by_length = grouped_by_length(stream, pool, args, spans);
    return state.by_length;
  }
  if (state.whole.empty()) {
    state.whole.push_back(make_group(stream, pool, args, args.documents,
                                     length_bucket(args.max_q_length),
                                     length_bucket(args.max_kv_length), nullptr));
  }
  return state.whole;
}

}  // namespace verlcpp::cuda
