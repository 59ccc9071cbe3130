#include "tensor/checked_backend.h"
#include "tensor/divergence.h"

// What the ops around attention and the head read and write, as in checked_ops.cpp.

namespace verlcpp {
namespace {

std::vector<OpTensor> with_spans(const AttentionSpans& spans, std::vector<OpTensor> tensors) {
  for (const Tensor* x :
       {&spans.q_offset_S, &spans.q_length_S, &spans.kv_offset_S, &spans.kv_length_S}) {
    tensors.push_back(reads(*x));
  }
  return tensors;
}

AttentionSpans twin_of(const AttentionSpans& spans,
                       const std::function<Tensor(const Tensor&)>& twin) {
  return {.q_offset_S = twin(spans.q_offset_S),
          .q_length_S = twin(spans.q_length_S),
          .kv_offset_S = twin(spans.kv_offset_S),
          .kv_length_S = twin(spans.kv_length_S),
          .q_lengths = spans.q_lengths,
          .kv_lengths = spans.kv_lengths,
          .max_q_length = spans.max_q_length,
          .max_kv_length = spans.max_kv_length,
          .backend_state = nullptr};
}

}  // namespace

// --- attention

int64_t CheckedBackend::prepare_attention(const AttentionCall& call) {
  return subject_->prepare_attention(call);
}

void CheckedBackend::attention_block(AttentionMask mask, const AttentionSpans& spans, double scale,
                                     const Tensor& q, const Tensor& k, const Tensor& v,
                                     const Tensor& o, const Tensor& lse) {
  check("attention_block",
        with_spans(spans,
                   {reads(q), reads(k), reads(v), writes("o", o), writes("lse", lse).at_least(1)}),
        [&](Backend& b, const Twin& twin) {
          b.attention_block(mask, twin_of(spans, twin), scale, twin(q), twin(k), twin(v), twin(o),
                            twin(lse));
        });
}

void CheckedBackend::decode_attention(const KvPages& pages, double scale, const Tensor& q,
                                      const Tensor& k, const Tensor& v, const Tensor& cache_k,
                                      const Tensor& cache_v, const Tensor& o) {
  check("decode_attention",
        {reads(pages.tables_BM), reads(pages.positions_B), reads(q), reads(k), reads(v),
         changes("cache_k", cache_k).exact(), changes("cache_v", cache_v).exact(), writes("o", o)},
        [&](Backend& b, const Twin& twin) {
          const KvPages twins{twin(pages.tables_BM), twin(pages.positions_B), pages.block};
          b.decode_attention(twins, scale, twin(q), twin(k), twin(v), twin(cache_k), twin(cache_v),
                             twin(o));
        });
}

void CheckedBackend::attention_merge(const Tensor& o, const Tensor& lse, const Tensor& o_part,
                                     const Tensor& lse_part) {
  check("attention_merge",
        {reads(o_part), reads(lse_part), changes("o", o), changes("lse", lse).at_least(1)},
        [&](Backend& b, const Twin& twin) {
          b.attention_merge(twin(o), twin(lse), twin(o_part), twin(lse_part));
        });
}

void CheckedBackend::attention_block_backward(AttentionMask mask, const AttentionSpans& spans,
                                              double scale, const Tensor& q, const Tensor& k,
                                              const Tensor& v, const Tensor& o, const Tensor& lse,
                                              const Tensor& d_o, const Tensor& d_q,
                                              const Tensor& d_k, const Tensor& d_v,
                                              bool accumulate) {
  const double d_values = kTerms * largest(d_o), d_scores = d_values * largest(v) * scale;
  const auto gradient = [&](const char* name, const Tensor& x, double terms) {
    return (accumulate ? changes(name, x) : writes(name, x)).at_least(terms);
  };
  check("attention_block_backward",
        with_spans(spans,
                   {reads(q), reads(k), reads(v), reads(o), reads(lse), reads(d_o),
                    gradient("d_q", d_q, d_scores * largest(k)),
                    gradient("d_k", d_k, d_scores * largest(q)), gradient("d_v", d_v, d_values)}),
        [&](Backend& b, const Twin& twin) {
          b.attention_block_backward(mask, twin_of(spans, twin), scale, twin(q), twin(k), twin(v),
                                     twin(o), twin(lse), twin(d_o), twin(d_q), twin(d_k), twin(d_v),
                                     accumulate);
        });
}

// --- head

void CheckedBackend::logit_stats(const Tensor& stats, const Tensor& logits, const Tensor& labels,
                                 const Tensor& temperature, int64_t first) {
  check("logit_stats",
        {reads(logits), reads(labels), reads(temperature),
         writes("stats", stats).in_columns(4).at_least(1)},
        [&](Backend& b, const Twin& twin) {
          b.logit_stats(twin(stats), twin(logits), twin(labels), twin(temperature), first);
        });
}

void CheckedBackend::head_stats(const Tensor& stats, const KeptLogits& kept, const Tensor& x,
                                const Tensor& w, const Tensor& labels, const Tensor& temperature,
                                int64_t first) {
  const double terms = kTerms * largest(x) * largest(w);
  const double scaled = std::max(1.0, terms / smallest_positive(temperature));
  check("head_stats",
        {reads(x), reads(w), reads(labels), reads(temperature),
         writes("stats", stats).in_columns(4).at_least(scaled),
         writes("kept values", kept.values_RV).at_least(scaled),
         writes("shift", kept.shift_RG).at_least(scaled)},
        [&](Backend& b, const Twin& twin) {
          b.head_stats(twin(stats), {twin(kept.values_RV), twin(kept.shift_RG)}, twin(x), twin(w),
                       twin(labels), twin(temperature), first);
        });
}

void CheckedBackend::token_log_prob(const Tensor& log_prob, const Tensor& entropy,
                                    const Tensor& lse, const Tensor& stats) {
  check("token_log_prob",
        {reads(stats), writes("log_prob", log_prob).at_least(1),
         writes("entropy", entropy).at_least(1), writes("lse", lse).at_least(1)},
        [&](Backend& b, const Twin& twin) {
          b.token_log_prob(twin(log_prob), twin(entropy), twin(lse), twin(stats));
        });
}

void CheckedBackend::token_log_prob_backward(const Tensor& d_logits, const KeptLogits& kept,
                                             const Tensor& labels, const Tensor& temperature,
                                             const Tensor& entropy, const Tensor& lse,
                                             const Tensor& d_log_prob, const Tensor& d_entropy,
                                             int64_t first) {
  const double terms = (largest(d_log_prob) + largest(d_entropy)) / smallest_positive(temperature);
  check("token_log_prob_backward",
        {reads(kept.values_RV), reads(kept.shift_RG), reads(labels), reads(temperature),
         reads(entropy), reads(lse), reads(d_log_prob), reads(d_entropy),
         writes("d_logits", d_logits).at_least(terms)},
        [&](Backend& b, const Twin& twin) {
          b.token_log_prob_backward(twin(d_logits), {twin(kept.values_RV), twin(kept.shift_RG)},
                                    twin(labels), twin(temperature), twin(entropy), twin(lse),
                                    twin(d_log_prob), twin(d_entropy), first);
        });
}

void CheckedBackend::sample(const Tensor& ids, const Tensor& log_prob, const Tensor& logits,
                            const Tensor& counters, const SamplingOptions& options) {
  // Drawn in float32 at least, whatever the logits are stored in.
  const double tolerance = tolerance_of(log_prob.dtype());
  check("sample",
        {reads(logits), reads(counters), writes("ids", ids),
         writes("log_prob", log_prob).at_least(1).within(tolerance)},
        [&](Backend& b, const Twin& twin) {
          b.sample(twin(ids), twin(log_prob), twin(logits), twin(counters), options);
          if (!is_reference(b)) return;
          accept_ties(ids, twin(ids), twin(log_prob), twin(logits), twin(counters), options);
        });
}

void CheckedBackend::advance_sequences(const Tensor& positions, const Tensor& counters) {
  check(
      "advance_sequences", {changes("positions", positions), changes("counters", counters)},
      [&](Backend& b, const Twin& twin) { b.advance_sequences(twin(positions), twin(counters)); });
}

}  // namespace verlcpp
