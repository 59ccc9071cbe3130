#pragma once

#include <optional>
#include <span>
#include <vector>

#include "data/packed_batch.h"
#include "model/context_parallel_parts.h"
#include "parallel/communicator.h"
#include "parallel/topology.h"
#include "tensor/backend.h"

namespace verlcpp::model {

/// Megatron-LM's cp_comm_type: K and V go round in a ring while blocks are computed, or all of the
/// group's are gathered first.
enum class CpCommType { kP2p, kAllGather };

/// What one rank does at one ring step: the peers it trades with and the block it computes.
/// At step i rank r sends its K and V to rank r + i and receives those of rank r - i (mod cp).
struct RingStep {
  int send_peer = 0, receive_peer = 0;  // pool ranks
  AttentionBlock block;                 // q rows against the received kv rows
};

/// Where the gathered rows of K and V belong, and the blocks that this rank computes over them. G =
/// cp T rows.
struct GatherPlan {
  parallel::CpGroup group;
  Tensor order_G;                // gathered row of each row in document order, a permutation
  AttentionBlock first, second;  // first and second chunks of all documents, bottom-right causal
  Tensor second_rows_R;          // local rows of the second chunks
};

/// Device-side description of attention over one packed micro-batch.
struct AttentionPlan {
  int64_t rows = 0;
  std::vector<RingStep> steps;       // one per member of the CP group; step 0 is local and causal
  std::optional<GatherPlan> gather;  // instead of steps, for a group of several
};

/// The blocks of a micro-batch in the order in which forward and backward come to them, on the host
/// alone; what a plan is made of. One a ring step; or those of the first and of the second chunks.
std::vector<HostBlock> attention_blocks(const data::PackedBatch& batch,
                                        const parallel::CpGroup& group, CpCommType type);

/// Causal attention of packed zigzag documents over a CP group, in the way of its plan; both are
/// made of attention_block over ranges of rows (context_parallel_ring.cpp,
/// context_parallel_all_gather.cpp). Group size one costs no communication.
class ContextParallelAttention {
 public:
  /// `cp` may be null when only groups of one are used.
  ContextParallelAttention(Backend& backend, parallel::Communicator* cp)
      : backend_(backend), cp_(cp) {}

  AttentionPlan plan(const data::PackedBatch& batch, const parallel::CpGroup& group,
                     CpCommType type = CpCommType::kP2p) const;

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
  std::vector<RingStep> ring_steps(std::span<const HostBlock> blocks,
                                   const parallel::CpGroup& group) const;
  void ring_forward(const std::vector<RingStep>& steps, double scale, const Tensor& q_TNH,
                    const Tensor& k_TKH, const Tensor& v_TKH, const Tensor& o_TNH,
                    const Tensor& lse_TN) const;
  void ring_backward(const std::vector<RingStep>& steps, double scale, const Tensor& q_TNH,
                     const Tensor& k_TKH, const Tensor& v_TKH, const Tensor& o_TNH,
                     const Tensor& lse_TN, const Tensor& d_o_TNH, const Tensor& d_q_TNH,
                     const Tensor& d_k_TKH, const Tensor& d_v_TKH) const;

  /// K and V of the whole group in document order, or their gradients.
  struct Gathered {
    Tensor k_GKH, v_GKH;
  };
  GatherPlan gather_plan(std::span<const HostBlock> blocks, const data::PackedBatch& batch,
                         const parallel::CpGroup& group) const;
  Gathered gather_kv(const GatherPlan& plan, const Tensor& k_TKH, const Tensor& v_TKH) const;
  /// d_k, d_v = the sum, in member order, of what all members computed for this rank's K and V.
  void send_home(const GatherPlan& plan, const Tensor& d_k_TKH, const Tensor& d_v_TKH,
                 const Gathered& d_kv) const;
  void gather_forward(const GatherPlan& plan, double scale, const Tensor& q_TNH,
                      const Tensor& k_TKH, const Tensor& v_TKH, const Tensor& o_TNH,
                      const Tensor& lse_TN) const;
  void gather_backward(const GatherPlan& plan, double scale, const Tensor& q_TNH,
                       const Tensor& k_TKH, const Tensor& v_TKH, const Tensor& o_TNH,
                       const Tensor& lse_TN, const Tensor& d_o_TNH, const Tensor& d_q_TNH,
                       const Tensor& d_k_TKH, const Tensor& d_v_TKH) const;

  Backend& backend_;
  parallel::Communicator* cp_;
};

}  // namespace verlcpp::model
