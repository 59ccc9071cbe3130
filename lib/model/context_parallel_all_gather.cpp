#include "base/error.h"
#include "model/context_parallel_attention.h"

// Megatron-LM's cp_comm_type all_gather: every member gets the K and V of the whole group, lays
// them in document order, and computes its two chunks of every document as bottom-right causal
// blocks over the keys up to the chunk's end. Two calls of attention, one per chunk, since the kv
// ranges of one call do not overlap.

namespace verlcpp::model {
namespace {

/// Row of the gathered tensor, whose members' rows lie end to end, for each row of the ordered one,
/// in which padded documents lie end to end as in cu_seqlens_padded.
std::vector<int32_t> document_order(const data::PackedBatch& batch) {
  const auto rows = static_cast<int32_t>(batch.rows()), cp = static_cast<int32_t>(batch.cp);
  std::vector<int32_t> order;
  for (size_t s = 0; s < batch.lengths.size(); ++s) {
    const int32_t padded = batch.cu_seqlens_padded[s + 1] - batch.cu_seqlens_padded[s];
    const int32_t half = padded / (2 * cp);
    for (int32_t chunk = 0; chunk < 2 * cp; ++chunk) {
      const int32_t member = chunk < cp ? chunk : 2 * cp - 1 - chunk;
      const int32_t first = member * rows + batch.local_offset[s] + (chunk < cp ? 0 : half);
      for (int32_t i = 0; i < half; ++i) order.push_back(first + i);
    }
  }
  return order;
}

/// This member's rows of every document's first or second chunk against the keys up to their end.
HostSpans chunk_spans(const data::PackedBatch& batch, bool second) {
  const int64_t chunk = second ? 2 * batch.cp - 1 - batch.cp_index : batch.cp_index;
  HostSpans spans;
  for (size_t s = 0; s < batch.lengths.size(); ++s) {
    const int32_t start = batch.cu_seqlens_padded[s];
    const int64_t padded = batch.cu_seqlens_padded[s + 1] - start;
    const ChunkRows mine = chunk_rows(batch.lengths[s], padded, batch.cp, batch.cp_index);
    expects(mine.total() == batch.local_length[s], "local_length does not fit the zigzag layout");
    const auto before = static_cast<int32_t>(chunk * (padded / (2 * batch.cp)));
    const int32_t offset = batch.local_offset[s] + (second ? mine.first : 0);
    const int32_t rows = second ? mine.second : mine.first;
    spans.append(offset, rows, start, rows == 0 ? 0 : before + rows);
  }
  return spans;
}

std::vector<int32_t> rows_of(const HostSpans& spans) {
  std::vector<int32_t> rows;
  for (size_t s = 0; s < spans.q_offset.size(); ++s) {
    for (int32_t i = 0; i < spans.q_length[s]; ++i) rows.push_back(spans.q_offset[s] + i);
  }
  return rows;
}

Shape scaled_rows(const Tensor& x, int64_t factor) {
  Shape shape = x.shape();
  shape[0] *= factor;
  return shape;
}

}  // namespace

std::vector<HostBlock> gather_blocks(const data::PackedBatch& batch) {
  std::vector<HostBlock> blocks;
  for (const bool second : {false, true}) {
    blocks.push_back({.mask = AttentionMask::kBottomRight,
                      .spans = chunk_spans(batch, second),
                      .kv_rows = batch.cp * batch.rows()});
  }
  return blocks;
}

GatherPlan ContextParallelAttention::gather_plan(std::span<const HostBlock> blocks,
                                                 const data::PackedBatch& batch,
                                                 const parallel::CpGroup& group) const {
  const auto up = [&](const std::vector<int32_t>& values) {
    return upload<int32_t>(backend_, values, {static_cast<int64_t>(values.size())},
                           MemoryTag::kWorkspace);
  };
  return {.group = group,
          .order_G = up(document_order(batch)),
          .first = upload_block(backend_, blocks[0]),
          .second = upload_block(backend_, blocks[1]),
          .second_rows_R = up(rows_of(blocks[1].spans))};
}

ContextParallelAttention::Gathered ContextParallelAttention::gather_kv(const GatherPlan& plan,
                                                                       const Tensor& k_TKH,
                                                                       const Tensor& v_TKH) const {
  expects(cp_ != nullptr, "a CP group of several ranks needs a communicator");
  const int cp = plan.group.size();
  const int64_t rows = k_TKH.dim(0);
  const auto wide = [&](const Tensor& x, MemoryTag tag) {
    return backend_.allocate(x.dtype(), scaled_rows(x, cp), tag);
  };
  const Tensor k = wide(k_TKH, MemoryTag::kComm), v = wide(v_TKH, MemoryTag::kComm);
  std::vector<parallel::Transfer> sends, receives;
  for (int member = 0; member < cp; ++member) {
    const Tensor k_part = k.rows(member * rows, rows), v_part = v.rows(member * rows, rows);
    if (member == plan.group.index) {
      backend_.copy(k_part, k_TKH);
      backend_.copy(v_part, v_TKH);
      continue;
    }
    const int peer = plan.group.ranks[static_cast<size_t>(member)];
    sends.insert(sends.end(), {{peer, k_TKH}, {peer, v_TKH}});
    receives.insert(receives.end(), {{peer, k_part}, {peer, v_part}});
  }
  cp_->exchange(sends, receives).wait();
  const Gathered ordered{wide(k_TKH, MemoryTag::kWorkspace), wide(v_TKH, MemoryTag::kWorkspace)};
  backend_.gather_rows(ordered.k_GKH, k, plan.order_G);
  backend_.gather_rows(ordered.v_GKH, v, plan.order_G);
  return ordered;
}

void ContextParallelAttention::gather_forward(const GatherPlan& plan, double scale,
                                              const Tensor& q_TNH, const Tensor& k_TKH,
                                              const Tensor& v_TKH, const Tensor& o_TNH,
                                              const Tensor& lse_TN) const {
  const Gathered kv = gather_kv(plan, k_TKH, v_TKH);
  const AttentionBlock &first = plan.first, &second = plan.second;
  backend_.attention_block(first.mask, first.spans, scale, q_TNH, kv.k_GKH, kv.v_GKH, o_TNH,
                           lse_TN);
  if (!second.computed) return;
  const auto like = [&](const Tensor& x) {
    return backend_.allocate(x.dtype(), x.shape(), MemoryTag::kWorkspace);
  };
  const Tensor o_part = like(o_TNH), lse_part = like(lse_TN);
  backend_.attention_block(second.mask, second.spans, scale, q_TNH, kv.k_GKH, kv.v_GKH, o_part,
                           lse_part);
  // Each call writes all rows, zeros where it has none; the second chunks' rows are the second's.
  for (const auto& [to, from] : {std::pair{o_TNH, o_part}, {lse_TN, lse_part}}) {
    Shape shape = to.shape();
    shape[0] = plan.second_rows_R.numel();
    const Tensor rows = backend_.allocate(to.dtype(), shape, MemoryTag::kWorkspace);
    backend_.gather_rows(rows, from, plan.second_rows_R);
    backend_.scatter_rows(to, rows, plan.second_rows_R);
  }
}

void ContextParallelAttention::send_home(const GatherPlan& plan, const Tensor& d_k_TKH,
                                         const Tensor& d_v_TKH, const Gathered& d_kv) const {
  const int cp = plan.group.size();
  const int64_t rows = d_k_TKH.dim(0);
  const auto wide = [&] {
    return backend_.allocate(d_kv.k_GKH.dtype(), d_kv.k_GKH.shape(), MemoryTag::kComm);
  };
  const Tensor mine_k = wide(), mine_v = wide(), theirs_k = wide(), theirs_v = wide();
  backend_.scatter_rows(mine_k, d_kv.k_GKH, plan.order_G);
  backend_.scatter_rows(mine_v, d_kv.v_GKH, plan.order_G);
  const auto part = [&](const Tensor& x, int member) { return x.rows(member * rows, rows); };
  std::vector<parallel::Transfer> sends, receives;
  for (int member = 0; member < cp; ++member) {
    if (member == plan.group.index) continue;
    const int peer = plan.group.ranks[static_cast<size_t>(member)];
    sends.insert(sends.end(), {{peer, part(mine_k, member)}, {peer, part(mine_v, member)}});
    receives.insert(receives.end(),
                    {{peer, part(theirs_k, member)}, {peer, part(theirs_v, member)}});
  }
  cp_->exchange(sends, receives).wait();
  const auto sum = [&](const Tensor& out, const Tensor& mine, const Tensor& theirs) {
    for (int member = 0; member < cp; ++member) {
      const Tensor& from = member == plan.group.index ? mine : theirs;
      if (member == 0) {
        backend_.copy(out, part(from, member));
      } else {
        backend_.add(out, out, part(from, member));
      }
    }
  };
  sum(d_k_TKH, mine_k, theirs_k);
  sum(d_v_TKH, mine_v, theirs_v);
}

void ContextParallelAttention::gather_backward(const GatherPlan& plan, double scale,
                                               const Tensor& q_TNH, const Tensor& k_TKH,
                                               const Tensor& v_TKH, const Tensor& o_TNH,
                                               const Tensor& lse_TN, const Tensor& d_o_TNH,
                                               const Tensor& d_q_TNH, const Tensor& d_k_TKH,
                                               const Tensor& d_v_TKH) const {
  // Gathered again rather than kept, which would cost cp times the memory of our own.
  const Gathered kv = gather_kv(plan, k_TKH, v_TKH);
  const DType wide = statistics_dtype(k_TKH.dtype());
  const auto gradient = [&] {
    return backend_.allocate(wide, kv.k_GKH.shape(), MemoryTag::kWorkspace);
  };
  const Gathered d_kv{gradient(), gradient()};
  const Tensor d_q = accumulator(backend_, d_q_TNH);
  bool accumulate = false;
  for (const AttentionBlock* block : {&plan.first, &plan.second}) {
    if (!block->computed) continue;
    backend_.attention_block_backward(block->mask, block->spans, scale, q_TNH, kv.k_GKH, kv.v_GKH,
                                      o_TNH, lse_TN, d_o_TNH, d_q, d_kv.k_GKH, d_kv.v_GKH,
                                      accumulate);
    accumulate = true;
  }
  const Tensor d_k = accumulator(backend_, d_k_TKH), d_v = accumulator(backend_, d_v_TKH);
  send_home(plan, d_k, d_v, d_kv);
  store(backend_, d_q_TNH, d_q);
  store(backend_, d_k_TKH, d_k);
  store(backend_, d_v_TKH, d_v);
}

}  // namespace verlcpp::model
