#include <array>
#include <utility>

#include "base/error.h"
#include "model/context_parallel_attention.h"

// Megatron-LM's cp_comm_type p2p: ring attention (Liu et al. 2023) over the zigzag layout. Step 0
// is plain causal over the local rows; kv from a lower rank s < r: all local q rows see s's first
// chunk; kv from a higher rank: the second local chunk sees all of s's rows.

namespace verlcpp::model {
namespace {

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

/// The member whose K and V meet the q rows of `mine` at step i.
int64_t source_at(int64_t step, int64_t mine, int64_t cp) { return (mine - step + cp) % cp; }

}  // namespace

std::vector<HostBlock> ring_blocks(const data::PackedBatch& batch) {
  std::vector<HostBlock> blocks;
  for (int64_t i = 0; i < batch.cp; ++i) {
    blocks.push_back({.mask = i == 0 ? AttentionMask::kCausal : AttentionMask::kNone,
                      .spans = step_spans(batch, source_at(i, batch.cp_index, batch.cp)),
                      .kv_rows = batch.rows()});
  }
  return blocks;
}

std::vector<RingStep> ContextParallelAttention::ring_steps(std::span<const HostBlock> blocks,
                                                           const parallel::CpGroup& group) const {
  const int cp = group.size();
  std::vector<RingStep> steps;
  for (int i = 0; i < cp; ++i) {
    const int target = (group.index + i) % cp;
    const auto source = static_cast<size_t>(source_at(i, group.index, cp));
    steps.push_back({.send_peer = group.ranks[static_cast<size_t>(target)],
                     .receive_peer = group.ranks[source],
                     .block = upload_block(backend_, blocks[static_cast<size_t>(i)])});
  }
  return steps;
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
      .send_peer = step.receive_peer, .receive_peer = step.send_peer, .block = {}};
  return trade_kv(reversed, d_k_TKH, d_v_TKH);
}

void ContextParallelAttention::ring_forward(const std::vector<RingStep>& steps, double scale,
                                            const Tensor& q_TNH, const Tensor& k_TKH,
                                            const Tensor& v_TKH, const Tensor& o_TNH,
                                            const Tensor& lse_TN) const {
  const size_t cp = steps.size();
  const Tensor o = cp == 1 ? o_TNH : accumulator(backend_, o_TNH);
  PeerKv next = cp > 1 ? trade_kv(steps[1], k_TKH, v_TKH) : PeerKv{};
  const AttentionBlock& local = steps[0].block;
  backend_.attention_block(local.mask, local.spans, scale, q_TNH, k_TKH, v_TKH, o, lse_TN);
  if (cp == 1) return;

  const Tensor o_part = backend_.allocate(o.dtype(), o.shape(), MemoryTag::kWorkspace);
  const Tensor lse_part = backend_.allocate(lse_TN.dtype(), lse_TN.shape(), MemoryTag::kWorkspace);
  for (size_t i = 1; i < cp; ++i) {
    PeerKv peer = std::exchange(next, {});
    peer.work.wait();
    // The next rows travel while this block is computed.
    if (i + 1 < cp) next = trade_kv(steps[i + 1], k_TKH, v_TKH);
    const AttentionBlock& block = steps[i].block;
    if (!block.computed) continue;
    backend_.attention_block(block.mask, block.spans, scale, q_TNH, peer.k_TKH, peer.v_TKH, o_part,
                             lse_part);
    backend_.attention_merge(o, lse_TN, o_part, lse_part);
  }
  store(backend_, o_TNH, o);
}

void ContextParallelAttention::ring_backward(const std::vector<RingStep>& steps, double scale,
                                             const Tensor& q_TNH, const Tensor& k_TKH,
                                             const Tensor& v_TKH, const Tensor& o_TNH,
                                             const Tensor& lse_TN, const Tensor& d_o_TNH,
                                             const Tensor& d_q_TNH, const Tensor& d_k_TKH,
                                             const Tensor& d_v_TKH) const {
  const size_t cp = steps.size();
  const AttentionBlock& local = steps[0].block;
  if (cp == 1) {
    backend_.attention_block_backward(local.mask, local.spans, scale, q_TNH, k_TKH, v_TKH, o_TNH,
                                      lse_TN, d_o_TNH, d_q_TNH, d_k_TKH, d_v_TKH, false);
    return;
  }
  const Tensor d_q = accumulator(backend_, d_q_TNH);
  const Tensor d_k = accumulator(backend_, d_k_TKH);
  const Tensor d_v = accumulator(backend_, d_v_TKH);
  for (const Tensor& x : {d_q, d_k, d_v}) backend_.fill_zero(x);

  // K and V travel again rather than being kept: a peer's rows for every layer would cost cp times
  // the memory of our own.
  PeerKv next = trade_kv(steps[1], k_TKH, v_TKH);
  backend_.attention_block_backward(local.mask, local.spans, scale, q_TNH, k_TKH, v_TKH, o_TNH,
                                    lse_TN, d_o_TNH, d_q, d_k, d_v, true);
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
    if (i + 1 < cp) next = trade_kv(steps[i + 1], k_TKH, v_TKH);
    const AttentionBlock& block = steps[i].block;
    const Tensor d_k_part = backend_.allocate(d_k.dtype(), d_k.shape(), MemoryTag::kComm);
    const Tensor d_v_part = backend_.allocate(d_v.dtype(), d_v.shape(), MemoryTag::kComm);
    backend_.fill_zero(d_k_part);
    backend_.fill_zero(d_v_part);
    if (block.computed) {
      backend_.attention_block_backward(block.mask, block.spans, scale, q_TNH, peer.k_TKH,
                                        peer.v_TKH, o_TNH, lse_TN, d_o_TNH, d_q, d_k_part, d_v_part,
                                        true);
    }
    if (i > 1) add_returned();
    returning = return_kv(steps[i], d_k_part, d_v_part);
  }
  add_returned();
  store(backend_, d_q_TNH, d_q);
  store(backend_, d_k_TKH, d_k);
  store(backend_, d_v_TKH, d_v);
}

}  // namespace verlcpp::model
