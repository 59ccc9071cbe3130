#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include "cuda/backend.h"
#include "cuda/kernels.h"
#include "tensor/check.h"

// The border of the ops around attention and the head, as in backend.cpp.

namespace verlcpp::cuda {
namespace {

AttentionArgs attention_args(AttentionMask mask, const AttentionSpans& spans, double scale,
                             const Tensor& q, const Tensor& k, const Tensor& v) {
  expect_rank(q, "q", 3);
  expect_rank(k, "k", 3);
  const auto documents = static_cast<size_t>(spans.q_offset_S.numel());
  expects(spans.q_lengths.size() == documents && spans.kv_lengths.size() == documents,
          "attention: spans without host lengths");
  expects(k.dim(1) > 0 && q.dim(1) % k.dim(1) == 0,
          "attention: query heads are no multiple of the kv heads");
  expect_tensor(k, "k", q.dtype(), {k.dim(0), k.dim(1), q.dim(2)});
  expect_like(v, "v", k);
  expect_like(spans.q_length_S, "q_length", spans.q_offset_S);
  expect_like(spans.kv_offset_S, "kv_offset", spans.q_offset_S);
  expect_like(spans.kv_length_S, "kv_length", spans.q_offset_S);
  return {.mask = mask,
          .scale = static_cast<float>(scale),
          .q_rows = q.dim(0),
          .kv_rows = k.dim(0),
          .heads = q.dim(1),
          .kv_heads = k.dim(1),
          .head_dim = q.dim(2),
          .documents = spans.q_offset_S.numel(),
          .max_q_length = spans.max_q_length,
          .max_kv_length = spans.max_kv_length,
          .q_offset = spans.q_offset_S.as<int32_t>(),
          .q_length = spans.q_length_S.as<int32_t>(),
          .kv_offset = spans.kv_offset_S.as<int32_t>(),
          .kv_length = spans.kv_length_S.as<int32_t>(),
          .q = q.data(),
          .k = k.data(),
          .v = v.data()};
}

/// Whether the documents that lack neither side cover every one of `rows`. Ranges do not overlap.
bool covers(const std::vector<int32_t>& lengths, const std::vector<int32_t>& others, int64_t rows) {
  for (size_t s = 0; s < lengths.size(); ++s) {
    if (others[s] > 0) rows -= lengths[s];
  }
  return rows == 0;
}

void check_head(const Tensor& logits, const Tensor& labels, std::span<const Tensor> per_row) {
  expect_rank(logits, "logits", 2);
  expect_tensor(labels, "labels", DType::kInt32, {logits.dim(0)});
  for (const Tensor& x : per_row) expect_tensor(x, "per row", DType::kFloat32, {logits.dim(0)});
}

}  // namespace

void CudaBackend::split_qkv(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& qkv,
                            const Tensor& bias, const Tensor& table) {
  const QkvShape shape = qkv_shape(q, k, v, qkv, bias, q.dtype(), table, DType::kFloat32);
  cuda::split_qkv(stream_, q.dtype(), shape, q.data(), k.data(), v.data(), qkv.data(), bias.data(),
                  table.as<float>());
}

void CudaBackend::split_qkv_backward(const Tensor& d_qkv, const Tensor& d_bias, const Tensor& d_q,
                                     const Tensor& d_k, const Tensor& d_v, const Tensor& table) {
  const QkvShape shape =
      qkv_shape(d_q, d_k, d_v, d_qkv, d_bias, DType::kFloat32, table, DType::kFloat32);
  cuda::split_qkv_backward(stream_, d_q.dtype(), shape, d_qkv.data(), d_bias.as<float>(),
                           d_q.data(), d_k.data(), d_v.data(), table.as<float>(),
                           d_bias.defined() ? parts_of(shape.width()) : nullptr);
}

// --- attention. cuDNN leaves rows in no document as they are, and writes bfloat16.

CudnnAttention& CudaBackend::cudnn() {
  if (!cudnn_) cudnn_ = std::make_unique<CudnnAttention>(stream_, pool_, options_);
  return *cudnn_;
}

void CudaBackend::cudnn_forward(const AttentionArgs& args, const AttentionSpans& spans,
                                const Tensor& o, const Tensor& lse) {
  const bool direct = o.dtype() == DType::kBFloat16;
  const Tensor out = direct ? o : allocate(DType::kBFloat16, o.shape(), MemoryTag::kWorkspace);
  if (!covers(spans.q_lengths, spans.kv_lengths, args.q_rows)) {
    fill_zero(out);
    fill(stream_, lse.numel(), lse.as<float>(), -INFINITY);
  }
  cudnn().forward(args, spans, out.data(), lse.as<float>());
  if (!direct) copy(o, out);
}

void CudaBackend::cudnn_backward(const AttentionArgs& args, const AttentionSpans& spans,
                                 const Tensor& o, const Tensor& lse, const Tensor& d_o,
                                 const Tensor& d_q, const Tensor& d_k, const Tensor& d_v,
                                 bool accumulate) {
  const bool direct = d_q.dtype() == DType::kBFloat16;
  const auto output = [&](const Tensor& x) {
    return direct ? x : allocate(DType::kBFloat16, x.shape(), MemoryTag::kWorkspace);
  };
  const Tensor q = output(d_q), k = output(d_k), v = output(d_v);
  if (!covers(spans.q_lengths, spans.kv_lengths, args.q_rows)) fill_zero(q);
  if (!covers(spans.kv_lengths, spans.q_lengths, args.kv_rows)) {
    fill_zero(k);
    fill_zero(v);
  }
  cudnn().backward(args, spans, o.data(), lse.as<float>(), d_o.data(), q.data(), k.data(),
                   v.data());
  if (direct) return;
  const auto store = [&](const Tensor& x, const Tensor& part) {
    if (!accumulate) return copy(x, part);
    add_to(stream_, x.numel(), x.as<float>(), part.dtype(), part.data());
  };
  store(d_q, q);
  store(d_k, k);
  store(d_v, v);
}

int64_t CudaBackend::prepare_attention(const AttentionCall& call) {
  return CudnnAttention::supports(call) ? cudnn().prepare(call) : 0;
}

void CudaBackend::attention_block(AttentionMask mask, const AttentionSpans& spans, double scale,
                                  const Tensor& q, const Tensor& k, const Tensor& v,
                                  const Tensor& o, const Tensor& lse) {
  const AttentionArgs args = attention_args(mask, spans, scale, q, k, v);
  expects(o.shape() == q.shape(), "attention: o has q's shape");
  expect_tensor(lse, "lse", DType::kFloat32, {q.dim(0), q.dim(1)});
  if (CudnnAttention::supports(call_of(q.dtype(), args, spans, false))) {
    return cudnn_forward(args, spans, o, lse);
  }
  cuda::attention_block(stream_, q.dtype(), args, o.data(), o.dtype(), lse.as<float>());
}

void CudaBackend::decode_attention(const KvPages& pages, double scale, const Tensor& q,
                                   const Tensor& k, const Tensor& v, const Tensor& cache_k,
                                   const Tensor& cache_v, const Tensor& o) {
  check_decode_attention(pages, q, k, v, cache_k, cache_v, o);
  const DecodeArgs args{.scale = static_cast<float>(scale),
                        .sequences = q.dim(0),
                        .heads = q.dim(1),
                        .kv_heads = k.dim(1),
                        .head_dim = q.dim(2),
                        .block = pages.block,
                        .blocks_per_sequence = pages.tables_BM.dim(1),
                        .tables = pages.tables_BM.as<int32_t>(),
                        .positions = pages.positions_B.as<int32_t>(),
                        .q = q.data(),
                        .k = k.data(),
                        .v = v.data(),
                        .cache_k = cache_k.data(),
                        .cache_v = cache_v.data(),
                        .o = o.data()};
  const int64_t floats = decode_attention_workspace(q.dtype(), args);
  const Tensor workspace = allocate(DType::kFloat32, {floats}, MemoryTag::kWorkspace);
  cuda::decode_attention(stream_, q.dtype(), args, workspace.as<float>());
}

void CudaBackend::attention_merge(const Tensor& o, const Tensor& lse, const Tensor& o_part,
                                  const Tensor& lse_part) {
  expect_rank(o, "o", 3);
  expect_tensor(lse, "lse", DType::kFloat32, {o.dim(0), o.dim(1)});
  expect_like(o_part, "o_part", o);
  expect_like(lse_part, "lse_part", lse);
  cuda::attention_merge(stream_, lse.numel(), o.dim(2), o.as<float>(), lse.as<float>(),
                        o_part.as<float>(), lse_part.as<float>());
}

void CudaBackend::attention_block_backward(AttentionMask mask, const AttentionSpans& spans,
                                           double scale, const Tensor& q, const Tensor& k,
                                           const Tensor& v, const Tensor& o, const Tensor& lse,
                                           const Tensor& d_o, const Tensor& d_q, const Tensor& d_k,
                                           const Tensor& d_v, bool accumulate) {
  const AttentionArgs args = attention_args(mask, spans, scale, q, k, v);
  expect_like(o, "o", q);
  expect_tensor(lse, "lse", DType::kFloat32, {q.dim(0), q.dim(1)});
  expect_like(d_o, "d_o", q);
  const DType dtype = d_q.dtype();
  expects(dtype == DType::kFloat32 || (!accumulate && dtype == q.dtype()),
          "attention: gradients are of float32, or of q's dtype where they do not accumulate");
  expect_tensor(d_q, "d_q", dtype, {q.dim(0), q.dim(1), q.dim(2)});
  expect_tensor(d_k, "d_k", dtype, {k.dim(0), k.dim(1), k.dim(2)});
  expect_like(d_v, "d_v", d_k);
  if (CudnnAttention::supports(call_of(q.dtype(), args, spans, true))) {
    return cudnn_backward(args, spans, o, lse, d_o, d_q, d_k, d_v, accumulate);
  }
  if (!accumulate) {
    for (const Tensor& x : {d_q, d_k, d_v}) fill_zero(x);
  }
  const Tensor delta = allocate(DType::kFloat32, lse.shape(), MemoryTag::kWorkspace);
  cuda::attention_block_backward(stream_, q.dtype(), args, o.data(), lse.as<float>(), d_o.data(),
                                 delta.as<float>(), dtype, d_q.data(), d_k.data(), d_v.data());
}

void CudaBackend::logit_stats(const Tensor& stats, const Tensor& logits, const Tensor& labels,
                              const Tensor& temperature, int64_t first) {
  check_head(logits, labels, std::span(&temperature, 1));
  expect_tensor(stats, "stats", DType::kFloat64, {logits.dim(0), 4});
  cuda::logit_stats(stream_, logits.dim(0), logits.dim(1), first, stats.as<double>(),
                    logits.as<float>(), labels.as<int32_t>(), temperature.as<float>());
}

void CudaBackend::head_stats(const Tensor& stats, const KeptLogits& kept, const Tensor& x,
                             const Tensor& w, const Tensor& labels, const Tensor& temperature,
                             int64_t first) {
  expect_rank(x, "x", 2);
  expect_rank(w, "w", 2);
  const int64_t rows = x.dim(0), vocab = w.dim(0);
  const auto logits_here = [&](const Tensor& logits) {
    matmul(logits, x, w, false, true, false);
    logit_stats(stats, logits, labels, temperature, first);
  };
  if (x.dtype() == DType::kFloat32) return logits_here(kept.values_RV);

  expect_tensor(w, "w", DType::kBFloat16, {vocab, x.dim(1)});
  expect_tensor(x, "x", DType::kBFloat16, {rows, w.dim(1)});
  expect_tensor(stats, "stats", DType::kFloat64, {rows, 4});
  expect_tensor(labels, "labels", DType::kInt32, {rows});
  expect_tensor(temperature, "temperature", DType::kFloat32, {rows});
  const bool keeps = kept.values_RV.defined();
  if (keeps) {
    expect_tensor(kept.values_RV, "kept values", DType::kFloat16, {rows, vocab});
    expect_tensor(kept.shift_RG, "shift", DType::kFloat32, {rows, kept_groups(vocab)});
  }
  const HeadShape shape{.rows = rows, .vocab = vocab, .width = x.dim(1), .first = first};
  auto* shift = keeps ? kept.shift_RG.as<float>() : nullptr;
  if (!multiplies_head(shape, x.data(), w.data())) {
    const Tensor logits = allocate(DType::kFloat32, {rows, vocab}, MemoryTag::kLogits);
    logits_here(logits);
    if (!keeps) return;
    return keep_logits(stream_, rows, vocab, kept.values_RV.data(), shift, logits.as<float>(),
                       temperature.as<float>());
  }
  const int64_t parts = head_parts(shape);
  const Tensor of_parts =
      allocate(DType::kFloat64, {parts > 1 ? parts : 0, rows, 4}, MemoryTag::kWorkspace);
  cuda::head_stats(stream_, shape, stats.as<double>(), of_parts.as<double>(),
                   keeps ? kept.values_RV.data() : nullptr, shift, x.data(), w.data(),
                   labels.as<int32_t>(), temperature.as<float>());
  bound_run_ahead();
}

void CudaBackend::token_log_prob(const Tensor& log_prob, const Tensor& entropy, const Tensor& lse,
                                 const Tensor& stats) {
  const int64_t rows = log_prob.numel(), parts = stats.dim(0);
  expect_tensor(stats, "stats", DType::kFloat64, {parts, rows, 4});
  expect_like(entropy, "entropy", log_prob);
  expect_like(lse, "lse", log_prob);
  cuda::token_log_prob(stream_, rows, parts, log_prob.as<float>(), entropy.as<float>(),
                       lse.as<float>(), stats.as<double>());
}

void CudaBackend::token_log_prob_backward(const Tensor& d_logits, const KeptLogits& kept,
                                          const Tensor& labels, const Tensor& temperature,
                                          const Tensor& entropy, const Tensor& lse,
                                          const Tensor& d_log_prob, const Tensor& d_entropy,
                                          int64_t first) {
  const Tensor& values = kept.values_RV;
  const Tensor per_row[] = {temperature, entropy, lse, d_log_prob, d_entropy};
  check_head(values, labels, per_row);
  expect_tensor(d_logits, "d_logits", d_logits.dtype(), {values.dim(0), values.dim(1)});
  const HeadGradient head{.rows = values.dim(0),
                          .vocab = values.dim(1),
                          .first = first,
                          .labels = labels.as<int32_t>(),
                          .temperature = temperature.as<float>(),
                          .entropy = entropy.as<float>(),
                          .lse = lse.as<float>(),
                          .d_log_prob = d_log_prob.as<float>(),
                          .d_entropy = d_entropy.as<float>()};
  if (!kept.shift_RG.defined()) {
    return cuda::token_log_prob_backward(stream_, d_logits.dtype(), head, d_logits.data(),
                                         values.as<float>());
  }
  expect_tensor(values, "kept values", DType::kFloat16, {head.rows, head.vocab});
  expect_tensor(kept.shift_RG, "shift", DType::kFloat32, {head.rows, kept_groups(head.vocab)});
  kept_log_prob_backward(stream_, d_logits.dtype(), head, d_logits.data(), values.data(),
                         kept.shift_RG.as<float>());
}

void CudaBackend::sample(const Tensor& ids, const Tensor& log_prob, const Tensor& logits,
                         const Tensor& counters, const SamplingOptions& options) {
  expect_rank(logits, "logits", 2);
  const int64_t rows = logits.dim(0);
  expect_tensor(ids, "ids", DType::kInt32, {rows});
  expect_tensor(log_prob, "log_prob", DType::kFloat32, {rows});
  expect_tensor(counters, "counters", DType::kInt32, {rows, 4});
  const int64_t words = sample_workspace(rows, logits.dim(1), options) / size_of(DType::kInt64);
  const Tensor workspace = allocate(DType::kInt64, {words}, MemoryTag::kWorkspace);
  cuda::sample(stream_, rows, logits.dim(1), ids.as<int32_t>(), log_prob.as<float>(),
               logits.as<float>(), counters.as<int32_t>(), options, workspace.data());
}

void CudaBackend::advance_sequences(const Tensor& positions, const Tensor& counters) {
  expect_rank(positions, "positions", 1);
  expect_tensor(counters, "counters", DType::kInt32, {positions.dim(0), 4});
  cuda::advance_sequences(stream_, positions.dim(0), positions.as<int32_t>(),
                          counters.as<int32_t>());
}

}  // namespace verlcpp::cuda
