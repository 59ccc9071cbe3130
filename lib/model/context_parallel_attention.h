#pragma once

#include <vector>

#include "data/packed_batch.h"
#include "parallel/communicator.h"
#include "parallel/topology.h"
#include "tensor/backend.h"

namespace verlcpp::model {

/// Dtype of norm statistics, LSE, log-probs and of partial attention results: at least float32.
DType statistics_dtype(DType dtype);

/// What one rank does at one ring step: the peers it trades with and the block it computes.
/// At step i rank r sends its K and V to rank r + i and receives those of rank r - i (mod cp).
struct RingStep {
  int send_peer = 0, receive_peer = 0;  // pool ranks
  AttentionMask mask = AttentionMask::kCausal;
  AttentionSpans spans;  // q rows against the received kv rows
};

/// Device-side description of attention over one packed micro-batch.
struct AttentionPlan {
  int64_t rows = 0;
  std::vector<RingStep> steps;  // one per member of the CP group; step 0 is local and causal
};

/// Causal attention of packed zigzag documents over a CP group. With the zigzag layout (rank r
/// holds chunks r and 2cp-1-r) every step is one block per document: step 0 is plain causal over
/// the local rows; kv from a lower rank s < r: all local q rows see s's first chunk; kv from a
/// higher rank: the second local chunk sees all of s's rows. Group size one costs no communication.
class ContextParallelAttention {
 public:
  /// `cp` may be null when only groups of one are used.
  ContextParallelAttention(Backend& backend, parallel::Communicator* cp)
      : backend_(backend), cp_(cp) {}

  AttentionPlan plan(const data::PackedBatch& batch, const parallel::CpGroup& group) const;

  /// o and lse are the merged (global) ones.
  void forward(const AttentionPlan& plan, double scale, const Tensor& q_TNH, const Tensor& k_TKH,
               const Tensor& v_TKH, const Tensor& o_TNH, const Tensor& lse_TN) const;
  /// d_q, d_k, d_v are overwritten.
  void backward(const AttentionPlan& plan, double scale, const Tensor& q_TNH, const Tensor& k_TKH,
                const Tensor& v_TKH, const Tensor& o_TNH, const Tensor& lse_TN,
                const Tensor& d_o_TNH, const Tensor& d_q_TNH, const Tensor& d_k_TKH,
                const Tensor& d_v_TKH) const;

 private:
  /// A peer's K and V on their way here.
  struct PeerKv {
    Tensor k_TKH, v_TKH;
    parallel::Work work;
  };
  PeerKv trade_kv(const RingStep& step, const Tensor& k_TKH, const Tensor& v_TKH) const;
  /// Sends the gradients computed for step's peer home, receives those that another rank computed
  /// for our K and V.
  PeerKv return_kv(const RingStep& step, const Tensor& d_k_TKH, const Tensor& d_v_TKH) const;

  Backend& backend_;
  parallel::Communicator* cp_;
};

}  // namespace verlcpp::model
