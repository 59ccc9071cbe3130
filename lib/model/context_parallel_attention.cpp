#include "model/context_parallel_attention.h"

#include "base/error.h"

namespace verlcpp::model {
namespace {

bool gathers(const parallel::CpGroup& group, CpCommType type) {
  return type == CpCommType::kAllGather && group.size() > 1;
}

}  // namespace

std::vector<HostBlock> attention_blocks(const data::PackedBatch& batch,
                                        const parallel::CpGroup& group, CpCommType type) {
  expects(group.size() == batch.cp && group.index == batch.cp_index,
          "the batch was packed for another CP group");
  std::vector<HostBlock> blocks = gathers(group, type) ? gather_blocks(batch) : ring_blocks(batch);
  const bool some = batch.rows() > 0;  // else there is no attention at all
  for (HostBlock& block : blocks) {
    block.computed = some && (&block == &blocks.front() || block.spans.has_rows());
  }
  return blocks;
}

AttentionPlan ContextParallelAttention::plan(const data::PackedBatch& batch,
                                             const parallel::CpGroup& group,
                                             CpCommType type) const {
  const std::vector<HostBlock> blocks = attention_blocks(batch, group, type);
  AttentionPlan plan{.rows = batch.rows(), .steps = {}, .gather = {}};
  if (gathers(group, type)) {
    plan.gather = gather_plan(blocks, batch, group);
  } else {
    plan.steps = ring_steps(blocks, group);
  }
  return plan;
}

void ContextParallelAttention::forward(const AttentionPlan& plan, double scale, const Tensor& q_TNH,
                                       const Tensor& k_TKH, const Tensor& v_TKH,
                                       const Tensor& o_TNH, const Tensor& lse_TN) const {
  // The padded rows of a batch are as many on every member, so all of them leave here together.
  if (plan.rows == 0) return;
  if (plan.gather) {
    gather_forward(*plan.gather, scale, q_TNH, k_TKH, v_TKH, o_TNH, lse_TN);
  } else {
    ring_forward(plan.steps, scale, q_TNH, k_TKH, v_TKH, o_TNH, lse_TN);
  }
}

void ContextParallelAttention::backward(const AttentionPlan& plan, double scale,
                                        const Tensor& q_TNH, const Tensor& k_TKH,
                                        const Tensor& v_TKH, const Tensor& o_TNH,
                                        const Tensor& lse_TN, const Tensor& d_o_TNH,
                                        const Tensor& d_q_TNH, const Tensor& d_k_TKH,
                                        const Tensor& d_v_TKH) const {
  if (plan.rows == 0) return;
  if (plan.gather) {
    gather_backward(*plan.gather, scale, q_TNH, k_TKH, v_TKH, o_TNH, lse_TN, d_o_TNH, d_q_TNH,
                    d_k_TKH, d_v_TKH);
  } else {
    ring_backward(plan.steps, scale, q_TNH, k_TKH, v_TKH, o_TNH, lse_TN, d_o_TNH, d_q_TNH, d_k_TKH,
                  d_v_TKH);
  }
}

}  // namespace verlcpp::model
