#include "model/context_parallel_attention.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/error.h"

// Ring attention (Liu et al. 2023) over the zigzag layout. With half = padded length / (2 cp), rank
// r holds positions [r half, (r+1) half) and [(2cp-1-r) half, (2cp-r) half) of every document.

namespace verlcpp::model {
namespace {

// Real rows of one document in the two chunks of a member of the group.
struct ChunkRows {
  int32_t first = 0, second = 0;
  int32_t total() const { return first + second; }
};

ChunkRows chunk_rows(int64_t length, int64_t padded, int64_t cp, int64_t member) {
  if (cp == 1) return {static_cast<int32_t>(length), 0};
  const int64_t half = padded / (2 * cp);
  const auto real = [&](int64_t chunk) {
    return static_cast<int32_t>(std::clamp<int64_t>(length - chunk * half, 0, half));
  };
  return {real(member), real(2 * cp - 1 - member)};
}

struct HostSpans {
  std::vector<int32_t> q_offset, q_length, kv_offset, kv_length;

  // A document where one side is empty has nothing to compute: both lengths become zero.
  void append(int32_t q_first, int32_t q_rows, int32_t kv_first, int32_t kv_rows) {
    const bool empty = q_rows == 0 || kv_rows == 0;
    q_offset.push_back(q_first);
    q_length.push_back(empty ? 0 : q_rows);
    kv_offset.push_back(kv_first);
    kv_length.push_back(empty ? 0 : kv_rows);
  }
};

int64_t maximum(const std::vector<int32_t>& values) {
  return values.empty() ? 0 : *std::max_element(values.begin(), values.end());
}

AttentionSpans upload_spans(Backend& backend, const HostSpans& host) {
  const auto up = [&](const std::vector<int32_t>& values) {
    return upload<int32_t>(backend, values, {static_cast<int64_t>(values.size())},
                           MemoryTag::kWorkspace);
  };
  return {.q_offset_S = up(host.q_offset),
          .q_length_S = up(host.q_length),
          .kv_offset_S = up(host.kv_offset),
          .kv_length_S = up(host.kv_length),
          .max_q_length = maximum(host.q_length),
          .max_kv_length = maximum(host.kv_length)};
}

// Rows of ours against rows of `source`, see the class comment.
HostSpans step_spans(const data::PackedBatch& batch, int64_t source) {
  const int64_t mine = batch.cp_index;
  HostSpans spans;
  for (size_t s = 0; s < batch.lengths.size(); ++s) {
    const int64_t padded = batch.cu_seqlens_padded[s + 1] - batch.cu_seqlens_padded[s];
    const ChunkRows q = chunk_rows(batch.lengths[s], padded, batch.cp, mine);
    const ChunkRows kv = chunk_rows(batch.lengths[s], padded, batch.cp, source);
    const int32_t offset = batch.local_offset[s];
    if (source == mine) {
      expects(q.total() == batch.local_length[s], "local_length does not fit the zigzag layout");
      spans.append(offset, q.total(), offset, q.total());
    } else if (source < mine) {
      spans.append(offset, q.total(), offset, kv.first);
    } else {
      spans.append(offset + q.first, q.second, offset, kv.total());
    }
  }
  return spans;
}

bool has_work(const RingStep& step) { return step.spans.max_q_length > 0; }

// `x` itself when it can hold partial sums, else a wider tensor of its shape.
Tensor accumulator(Backend& backend, const Tensor& x) {
  const DType wide = statistics_dtype(x.dtype());
  return wide == x.dtype() ? x : backend.allocate(wide, x.shape(), MemoryTag::kWorkspace);
}

void store(Backend& backend, const Tensor& x, const Tensor& accumulated) {
  if (accumulated.dtype() != x.dtype()) backend.copy(x, accumulated);
}

}  // namespace

DType statistics_dtype(DType dtype) {
  return dtype == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32;
}

AttentionPlan ContextParallelAttention::plan(const data::PackedBatch& batch,
                                             const parallel::CpGroup& group) const {
  const int cp = group.size();
  expects(cp == batch.cp && group.index == batch.cp_index,
          "the batch was packed for another CP group");
  AttentionPlan plan{.rows = batch.rows(), .steps = {}};
  for (int i = 0; i < cp; ++i) {
    const int target = (group.index + i) % cp;
    const int source = (group.index - i + cp) % cp;
    plan.steps.push_back({.send_peer = group.ranks[static_cast<size_t>(target)],
                          .receive_peer = group.ranks[static_cast<size_t>(source)],
                          .mask = i == 0 ? AttentionMask::kCausal : AttentionMask::kNone,
                          .spans = upload_spans(backend_, step_spans(batch, source))});
  }
  return plan;
}

ContextParallelAttention::PeerKv ContextParallelAttention::trade_kv(const RingStep& step,
                                                                    const Tensor& k_TKH,
                                                                    const Tensor& v_TKH) const {
  expects(cp_ != nullptr, "a CP group of several ranks needs a communicator");
  PeerKv peer{backend_.allocate(k_TKH.dtype(), k_TKH.shape(), MemoryTag::kComm),
              backend_.allocate(v_TKH.dtype(), v_TKH.shape(), MemoryTag::kComm),
              {}};
  const std::array sends{parallel::Transfer{step.send_peer, k_TKH},
                         parallel::Transfer{step.send_peer, v_TKH}};
  const std::array receives{parallel::Transfer{step.receive_peer, peer.k_TKH},
                            parallel::Transfer{step.receive_peer, peer.v_TKH}};
  peer.work = cp_->exchange(sends, receives);
  return peer;
}

ContextParallelAttention::PeerKv ContextParallelAttention::return_kv(const RingStep& step,
                                                                     const Tensor& d_k_TKH,
                                                                     const Tensor& d_v_TKH) const {
  const RingStep reversed{
      .send_peer = step.receive_peer, .receive_peer = step.send_peer, .spans = {}};
  return trade_kv(reversed, d_k_TKH, d_v_TKH);
}

void ContextParallelAttention::forward(const AttentionPlan& plan, double scale, const Tensor& q_TNH,
                                       const Tensor& k_TKH, const Tensor& v_TKH,
                                       const Tensor& o_TNH, const Tensor& lse_TN) const {
  // The padded rows of a batch are as many on every member, so all of them leave here together.
  if (plan.rows == 0) return;
  const size_t cp = plan.steps.size();
  const Tensor o = cp == 1 ? o_TNH : accumulator(backend_, o_TNH);
  PeerKv next = cp > 1 ? trade_kv(plan.steps[1], k_TKH, v_TKH) : PeerKv{};
  backend_.attention_block(plan.steps[0].mask, plan.steps[0].spans, scale, q_TNH, k_TKH, v_TKH, o,
                           lse_TN);
  if (cp == 1) return;

  const Tensor o_part = backend_.allocate(o.dtype(), o.shape(), MemoryTag::kWorkspace);
  const Tensor lse_part = backend_.allocate(lse_TN.dtype(), lse_TN.shape(), MemoryTag::kWorkspace);
  for (size_t i = 1; i < cp; ++i) {
    PeerKv peer = std::exchange(next, {});
    peer.work.wait();
    // The next rows travel while this block is computed.
    if (i + 1 < cp) next = trade_kv(plan.steps[i + 1], k_TKH, v_TKH);
    const RingStep& step = plan.steps[i];
    if (!has_work(step)) continue;
    backend_.attention_block(step.mask, step.spans, scale, q_TNH, peer.k_TKH, peer.v_TKH, o_part,
                             lse_part);
    backend_.attention_merge(o, lse_TN, o_part, lse_part);
  }
  store(backend_, o_TNH, o);
}

void ContextParallelAttention::backward(const AttentionPlan& plan, double scale,
                                        const Tensor& q_TNH, const Tensor& k_TKH,
                                        const Tensor& v_TKH, const Tensor& o_TNH,
                                        const Tensor& lse_TN, const Tensor& d_o_TNH,
                                        const Tensor& d_q_TNH, const Tensor& d_k_TKH,
                                        const Tensor& d_v_TKH) const {
  if (plan.rows == 0) return;
  const size_t cp = plan.steps.size();
  const Tensor delta = backend_.allocate(lse_TN.dtype(), lse_TN.shape(), MemoryTag::kWorkspace);
  backend_.attention_delta(delta, d_o_TNH, o_TNH);
  const Tensor d_q = accumulator(backend_, d_q_TNH);
  const Tensor d_k = accumulator(backend_, d_k_TKH);
  const Tensor d_v = accumulator(backend_, d_v_TKH);
  for (const Tensor& x : {d_q, d_k, d_v}) backend_.fill_zero(x);

  // K and V travel again rather than being kept: a peer's rows for every layer would cost cp times
  // the memory of our own.
  PeerKv next = cp > 1 ? trade_kv(plan.steps[1], k_TKH, v_TKH) : PeerKv{};
  backend_.attention_block_backward(plan.steps[0].mask, plan.steps[0].spans, scale, q_TNH, k_TKH,
                                    v_TKH, lse_TN, delta, d_o_TNH, d_q, d_k, d_v);
  PeerKv returning;
  // Gradients of our own K and V arrive, and are added, in step order: a fixed order of the sum.
  const auto add_returned = [&] {
    returning.work.wait();
    backend_.add(d_k, d_k, returning.k_TKH);
    backend_.add(d_v, d_v, returning.v_TKH);
    returning = {};
  };
  for (size_t i = 1; i < cp; ++i) {
    PeerKv peer = std::exchange(next, {});
    peer.work.wait();
    if (i + 1 < cp) next = trade_kv(plan.steps[i + 1], k_TKH, v_TKH);
    const RingStep& step = plan.steps[i];
    const Tensor d_k_part = backend_.allocate(d_k.dtype(), d_k.shape(), MemoryTag::kComm);
    const Tensor d_v_part = backend_.allocate(d_v.dtype(), d_v.shape(), MemoryTag::kComm);
    backend_.fill_zero(d_k_part);
    backend_.fill_zero(d_v_part);
    if (has_work(step)) {
      backend_.attention_block_backward(step.mask, step.spans, scale, q_TNH, peer.k_TKH, peer.v_TKH,
                                        lse_TN, delta, d_o_TNH, d_q, d_k_part, d_v_part);
    }
    if (i > 1) add_returned();
    returning = return_kv(step, d_k_part, d_v_part);
  }
  if (cp > 1) add_returned();
  store(backend_, d_q_TNH, d_q);
  store(backend_, d_k_TKH, d_k);
  store(backend_, d_v_TKH, d_v);
}

}  // namespace verlcpp::model
