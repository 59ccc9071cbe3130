#include <array>
#include <span>

#include "cpu/cpu_backend.h"
#include "cpu/dispatch.h"
#include "cpu/kernels.h"
#include "tensor/check.h"

// The border of the ops around attention and the head, as in cpu_backend.cpp.

namespace verlcpp::cpu {
namespace {

void check_span(int64_t offset, int64_t length, int64_t max_length, int64_t rows,
                std::string_view which) {
  if (offset >= 0 && length >= 0 && length <= max_length && offset + length <= rows) return;
  expects(false, "attention: " + std::string(which) + " rows [" + std::to_string(offset) + ", +" +
                     std::to_string(length) + ") outside of " + std::to_string(rows) +
                     " rows, or longer than the stated maximum " + std::to_string(max_length));
}

template <class T>
AttentionInput<T> attention_input(AttentionMask mask, const AttentionSpans& spans, double scale,
                                  const Tensor& q, const Tensor& k, const Tensor& v) {
  const AttentionInput<T> in{.mask = mask,
                             .scale = scale,
                             .q_rows = q.dim(0),
                             .kv_rows = k.dim(0),
                             .heads = q.dim(1),
                             .kv_heads = k.dim(1),
                             .head_dim = q.dim(2),
                             .documents = spans.q_offset_S.numel(),
                             .q_offset = spans.q_offset_S.as<int32_t>(),
                             .q_length = spans.q_length_S.as<int32_t>(),
                             .kv_offset = spans.kv_offset_S.as<int32_t>(),
                             .kv_length = spans.kv_length_S.as<int32_t>(),
                             .q = q.as<T>(),
                             .k = k.as<T>(),
                             .v = v.as<T>()};
  for (int64_t s = 0; s < in.documents; ++s) {
    check_span(in.q_offset[s], in.q_length[s], spans.max_q_length, in.q_rows, "q");
    check_span(in.kv_offset[s], in.kv_length[s], spans.max_kv_length, in.kv_rows, "kv");
  }
  return in;
}

void check_attention(const AttentionSpans& spans, const Tensor& q, const Tensor& k,
                     const Tensor& v) {
  expect_rank(q, "q", 3);
  expect_rank(k, "k", 3);
  expects(k.dim(1) > 0 && q.dim(1) % k.dim(1) == 0,
          "attention: query heads are no multiple of the kv heads");
  expect_tensor(k, "k", q.dtype(), {k.dim(0), k.dim(1), q.dim(2)});
  expect_like(v, "v", k);
  expect_like(spans.q_length_S, "q_length", spans.q_offset_S);
  expect_like(spans.kv_offset_S, "kv_offset", spans.q_offset_S);
  expect_like(spans.kv_length_S, "kv_length", spans.q_offset_S);
}

void check_head(const Tensor& logits, const Tensor& labels, std::span<const Tensor> per_row) {
  expect_rank(logits, "logits", 2);
  expect_tensor(labels, "labels", DType::kInt32, {logits.dim(0)});
  for (const Tensor& x : per_row) expect_tensor(x, "per row", logits.dtype(), {logits.dim(0)});
}

}  // namespace

void CpuBackend::split_qkv(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& qkv,
                           const Tensor& bias, const Tensor& table) {
  const QkvShape shape = qkv_shape(q, k, v, qkv, bias, q.dtype(), table, q.dtype());
  dispatch(q.dtype(), [&]<class T>() {
    cpu::split_qkv(shape, q.as<T>(), k.as<T>(), v.as<T>(), qkv.as<T>(), pointer_or_null<T>(bias),
                   pointer_or_null<T>(table));
  });
}

void CpuBackend::split_qkv_backward(const Tensor& d_qkv, const Tensor& d_bias, const Tensor& d_q,
                                    const Tensor& d_k, const Tensor& d_v, const Tensor& table) {
  const DType dtype = d_q.dtype();
  const QkvShape shape = qkv_shape(d_q, d_k, d_v, d_qkv, d_bias, dtype, table, dtype);
  dispatch(dtype, [&]<class T>() {
    cpu::split_qkv_backward(shape, d_qkv.as<T>(), pointer_or_null<T>(d_bias), d_q.as<T>(),
                            d_k.as<T>(), d_v.as<T>(), pointer_or_null<T>(table));
  });
}

int64_t CpuBackend::prepare_attention(const AttentionCall&) { return 0; }

void CpuBackend::attention_block(AttentionMask mask, const AttentionSpans& spans, double scale,
                                 const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& o,
                                 const Tensor& lse) {
  check_attention(spans, q, k, v);
  expect_like(o, "o", q);
  expect_tensor(lse, "lse", q.dtype(), {q.dim(0), q.dim(1)});
  dispatch(q.dtype(), [&]<class T>() {
    cpu::attention_block(attention_input<T>(mask, spans, scale, q, k, v), o.as<T>(), lse.as<T>());
  });
}

void CpuBackend::decode_attention(const KvPages& pages, double scale, const Tensor& q,
                                  const Tensor& k, const Tensor& v, const Tensor& cache_k,
                                  const Tensor& cache_v, const Tensor& o) {
  check_decode_attention(pages, q, k, v, cache_k, cache_v, o);
  dispatch(q.dtype(), [&]<class T>() {
    cpu::decode_attention(DecodeInput<T>{.scale = scale,
                                         .sequences = q.dim(0),
                                         .heads = q.dim(1),
                                         .kv_heads = k.dim(1),
                                         .head_dim = q.dim(2),
                                         .block = pages.block,
                                         .blocks_per_sequence = pages.tables_BM.dim(1),
                                         .cache_blocks = cache_k.dim(0) / pages.block,
                                         .tables = pages.tables_BM.as<int32_t>(),
                                         .positions = pages.positions_B.as<int32_t>(),
                                         .q = q.as<T>(),
                                         .k = k.as<T>(),
                                         .v = v.as<T>(),
                                         .cache_k = cache_k.as<T>(),
                                         .cache_v = cache_v.as<T>()},
                          o.as<T>());
  });
}

void CpuBackend::attention_merge(const Tensor& o, const Tensor& lse, const Tensor& o_part,
                                 const Tensor& lse_part) {
  expect_rank(o, "o", 3);
  expect_tensor(lse, "lse", o.dtype(), {o.dim(0), o.dim(1)});
  expect_like(o_part, "o_part", o);
  expect_like(lse_part, "lse_part", lse);
  dispatch(o.dtype(), [&]<class T>() {
    cpu::attention_merge(lse.numel(), o.dim(2), o.as<T>(), lse.as<T>(), o_part.as<T>(),
                         lse_part.as<T>());
  });
}

void CpuBackend::attention_block_backward(AttentionMask mask, const AttentionSpans& spans,
                                          double scale, const Tensor& q, const Tensor& k,
                                          const Tensor& v, const Tensor& o, const Tensor& lse,
                                          const Tensor& d_o, const Tensor& d_q, const Tensor& d_k,
                                          const Tensor& d_v, bool accumulate) {
  check_attention(spans, q, k, v);
  expect_like(o, "o", q);
  expect_tensor(lse, "lse", q.dtype(), {q.dim(0), q.dim(1)});
  expect_like(d_o, "d_o", q);
  expect_like(d_q, "d_q", q);
  expect_like(d_k, "d_k", k);
  expect_like(d_v, "d_v", v);
  if (!accumulate) {
    for (const Tensor& x : {d_q, d_k, d_v}) fill_zero(x);
  }
  dispatch(q.dtype(), [&]<class T>() {
    cpu::attention_block_backward(attention_input<T>(mask, spans, scale, q, k, v), o.as<T>(),
                                  lse.as<T>(), d_o.as<T>(), d_q.as<T>(), d_k.as<T>(), d_v.as<T>());
  });
}

void CpuBackend::logit_stats(const Tensor& stats, const Tensor& logits, const Tensor& labels,
                             const Tensor& temperature, int64_t first) {
  check_head(logits, labels, std::array{temperature});
  expect_tensor(stats, "stats", DType::kFloat64, {logits.dim(0), 4});
  dispatch(logits.dtype(), [&]<class T>() {
    cpu::logit_stats(logits.dim(0), logits.dim(1), first, stats.as<double>(), logits.as<T>(),
                     labels.as<int32_t>(), temperature.as<T>());
  });
}

void CpuBackend::head_stats(const Tensor& stats, const KeptLogits& kept, const Tensor& x,
                            const Tensor& w, const Tensor& labels, const Tensor& temperature,
                            int64_t first) {
  const bool shifted = kept.shift_RG.defined();
  const Tensor logits = kept.values_RV.defined() && !shifted
                            ? kept.values_RV
                            : allocate(x.dtype(), {x.dim(0), w.dim(0)}, MemoryTag::kLogits);
  matmul(logits, x, w, false, true, false);
  logit_stats(stats, logits, labels, temperature, first);
  if (!shifted) return;
  expect_like(kept.values_RV, "kept values", logits);
  expect_tensor(kept.shift_RG, "shift", x.dtype(), {logits.dim(0), kept_groups(logits.dim(1))});
  dispatch(x.dtype(), [&]<class T>() {
    cpu::keep_logits(logits.dim(0), logits.dim(1), kept.values_RV.as<T>(), kept.shift_RG.as<T>(),
                     logits.as<T>(), temperature.as<T>());
  });
}

void CpuBackend::token_log_prob(const Tensor& log_prob, const Tensor& entropy, const Tensor& lse,
                                const Tensor& stats) {
  const int64_t rows = log_prob.numel(), parts = stats.dim(0);
  expect_tensor(stats, "stats", DType::kFloat64, {parts, rows, 4});
  expect_like(entropy, "entropy", log_prob);
  expect_like(lse, "lse", log_prob);
  dispatch(log_prob.dtype(), [&]<class T>() {
    cpu::token_log_prob(rows, parts, log_prob.as<T>(), entropy.as<T>(), lse.as<T>(),
                        stats.as<double>());
  });
}

void CpuBackend::token_log_prob_backward(const Tensor& d_logits, const KeptLogits& kept,
                                         const Tensor& labels, const Tensor& temperature,
                                         const Tensor& entropy, const Tensor& lse,
                                         const Tensor& d_log_prob, const Tensor& d_entropy,
                                         int64_t first) {
  Tensor logits = kept.values_RV;
  if (kept.shift_RG.defined()) {
    logits = allocate(kept.values_RV.dtype(), kept.values_RV.shape(), MemoryTag::kLogits);
    dispatch(logits.dtype(), [&]<class T>() {
      cpu::kept_to_logits(logits.dim(0), logits.dim(1), logits.as<T>(), kept.values_RV.as<T>(),
                          kept.shift_RG.as<T>(), temperature.as<T>());
    });
  }
  check_head(logits, labels, std::array{temperature, entropy, lse, d_log_prob, d_entropy});
  expect_like(d_logits, "d_logits", logits);
  dispatch(logits.dtype(), [&]<class T>() {
    cpu::token_log_prob_backward(
        logits.dim(0), logits.dim(1), first, d_logits.as<T>(), logits.as<T>(), labels.as<int32_t>(),
        temperature.as<T>(), entropy.as<T>(), lse.as<T>(), d_log_prob.as<T>(), d_entropy.as<T>());
  });
}

void CpuBackend::sample(const Tensor& ids, const Tensor& log_prob, const Tensor& logits,
                        const Tensor& counters, const SamplingOptions& options) {
  expect_rank(logits, "logits", 2);
  const int64_t rows = logits.dim(0);
  expect_tensor(ids, "ids", DType::kInt32, {rows});
  expect_tensor(log_prob, "log_prob", logits.dtype(), {rows});
  expect_tensor(counters, "counters", DType::kInt32, {rows, 4});
  dispatch(logits.dtype(), [&]<class T>() {
    cpu::sample(rows, logits.dim(1), ids.as<int32_t>(), log_prob.as<T>(), logits.as<T>(),
                counters.as<int32_t>(), options);
  });
}

void CpuBackend::advance_sequences(const Tensor& positions, const Tensor& counters) {
  expect_rank(positions, "positions", 1);
  expect_tensor(counters, "counters", DType::kInt32, {positions.dim(0), 4});
  cpu::advance_sequences(positions.dim(0), positions.as<int32_t>(), counters.as<int32_t>());
}

}  // namespace verlcpp::cpu
