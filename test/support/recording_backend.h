#pragma once

#include <set>
#include <tuple>
#include <vector>

#include "cpu/cpu_backend.h"

namespace verlcpp::test {

/// A CpuBackend that notes which calls of attention were prepared and which were made.
class RecordingBackend final : public cpu::CpuBackend {
 public:
  /// backward, mask, scale, dtype, q rows, kv rows, heads, kv heads, head dim, q lengths, kv
  /// lengths
  using Call = std::tuple<bool, AttentionMask, double, DType, int64_t, int64_t, int64_t, int64_t,
                          int64_t, std::vector<int32_t>, std::vector<int32_t>>;
  using Calls = std::set<Call>;

  const Calls& prepared() const { return prepared_; }
  const Calls& made() const { return made_; }

  int64_t prepare_attention(const AttentionCall& call) override {
    const bool is_new = prepared_.insert(key(call)).second;
    return is_new ? 1 : 0;
  }
  void attention_block(AttentionMask mask, const AttentionSpans& spans, double scale,
                       const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& o,
                       const Tensor& lse) override {
    made_.insert(key(call_of(mask, spans, scale, q, k, false)));
    CpuBackend::attention_block(mask, spans, scale, q, k, v, o, lse);
  }
  void attention_block_backward(AttentionMask mask, const AttentionSpans& spans, double scale,
                                const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& o,
                                const Tensor& lse, const Tensor& d_o, const Tensor& d_q,
                                const Tensor& d_k, const Tensor& d_v, bool accumulate) override {
    made_.insert(key(call_of(mask, spans, scale, q, k, true)));
    CpuBackend::attention_block_backward(mask, spans, scale, q, k, v, o, lse, d_o, d_q, d_k, d_v,
                                         accumulate);
  }

 private:
  static AttentionCall call_of(AttentionMask mask, const AttentionSpans& spans, double scale,
                               const Tensor& q, const Tensor& k, bool backward) {
    return {.mask = mask,
            .scale = scale,
            .dtype = q.dtype(),
            .q_rows = q.dim(0),
            .kv_rows = k.dim(0),
            .heads = q.dim(1),
            .kv_heads = k.dim(1),
            .head_dim = q.dim(2),
            .q_lengths = spans.q_lengths,
            .kv_lengths = spans.kv_lengths,
            .backward = backward};
  }
  static Call key(const AttentionCall& c) {
    return {c.backward,
            c.mask,
            c.scale,
            c.dtype,
            c.q_rows,
            c.kv_rows,
            c.heads,
            c.kv_heads,
            c.head_dim,
            {c.q_lengths.begin(), c.q_lengths.end()},
            {c.kv_lengths.begin(), c.kv_lengths.end()}};
  }

  Calls prepared_, made_;
};

}  // namespace verlcpp::test
