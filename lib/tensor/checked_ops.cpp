#include <algorithm>
#include <utility>

#include "tensor/checked_backend.h"

// What every op reads and writes. A body runs twice: with the subject's tensors, then with the
// reference's, its twins.

namespace verlcpp {
// --- memory

Tensor CheckedBackend::allocate(DType dtype, Shape shape, MemoryTag tag) {
  return subject_->allocate(dtype, std::move(shape), tag);
}

void CheckedBackend::fill_zero(const Tensor& x) {
  check("fill_zero", {writes("x", x).exact()},
        [&](Backend& b, const Twin& twin) { b.fill_zero(twin(x)); });
}

void CheckedBackend::copy(const Tensor& dst, const Tensor& src) {
  const OpTensor output = writes("dst", dst);
  check("copy", {reads(src), dst.dtype() == src.dtype() ? output.exact() : output},
        [&](Backend& b, const Twin& twin) { b.copy(twin(dst), twin(src)); });
}

void CheckedBackend::write(const Tensor& dst, std::span<const std::byte> src) {
  subject_->write(dst, src);
}

void CheckedBackend::read(std::span<std::byte> dst, const Tensor& src) { subject_->read(dst, src); }

void CheckedBackend::synchronize() { subject_->synchronize(); }

PendingRead CheckedBackend::read_later(const Tensor& x) { return subject_->read_later(x); }

HostWork CheckedBackend::run_on_host(const std::vector<Tensor>& inputs,
                                     const std::vector<Tensor>& outputs, HostCode code) {
  return subject_->run_on_host(inputs, outputs, std::move(code));
}

void CheckedBackend::replay(const std::string&, const std::function<void()>& body) { body(); }

void CheckedBackend::forget_replays() { subject_->forget_replays(); }

MemoryBytes CheckedBackend::peak_bytes() const { return subject_->peak_bytes(); }
int64_t CheckedBackend::reserved_bytes() const { return subject_->reserved_bytes(); }

void CheckedBackend::reset_peak_bytes() { subject_->reset_peak_bytes(); }

// --- dense

void CheckedBackend::matmul(const Tensor& c, const Tensor& a, const Tensor& b, bool transpose_a,
                            bool transpose_b, bool accumulate) {
  const double terms = kTerms * largest(a) * largest(b);
  const OpTensor product = accumulate ? changes("c", c) : writes("c", c);
  check("matmul", {reads(a), reads(b), product.at_least(terms)},
        [&](Backend& backend, const Twin& twin) {
          backend.matmul(twin(c), twin(a), twin(b), transpose_a, transpose_b, accumulate);
        });
}

void CheckedBackend::add(const Tensor& result, const Tensor& a, const Tensor& b) {
  check("add", {reads(a), reads(b), writes("out", result)},
        [&](Backend& backend, const Twin& twin) { backend.add(twin(result), twin(a), twin(b)); });
}

// --- rows

void CheckedBackend::embedding(const Tensor& result, const Tensor& table, const Tensor& ids,
                               int64_t first) {
  check("embedding", {reads(table), reads(ids), writes("out", result).exact()},
        [&](Backend& b, const Twin& twin) {
          b.embedding(twin(result), twin(table), twin(ids), first);
        });
}

void CheckedBackend::embedding_backward(const Tensor& d_table, const Tensor& d_out,
                                        const Tensor& ids, int64_t first) {
  check("embedding_backward",
        {reads(d_out), reads(ids), changes("d_table", d_table).at_least(kTerms * largest(d_out))},
        [&](Backend& b, const Twin& twin) {
          b.embedding_backward(twin(d_table), twin(d_out), twin(ids), first);
        });
}

void CheckedBackend::gather_rows(const Tensor& result, const Tensor& x, const Tensor& rows) {
  check("gather_rows", {reads(x), reads(rows), writes("out", result).exact()},
        [&](Backend& b, const Twin& twin) { b.gather_rows(twin(result), twin(x), twin(rows)); });
}

void CheckedBackend::scatter_rows(const Tensor& result, const Tensor& x, const Tensor& rows) {
  check("scatter_rows", {reads(x), reads(rows), changes("out", result).exact()},
        [&](Backend& b, const Twin& twin) { b.scatter_rows(twin(result), twin(x), twin(rows)); });
}

void CheckedBackend::join_columns(const Tensor& joined, const Tensor& part, int64_t column) {
  check("join_columns", {reads(part), changes("joined", joined).exact()},
        [&](Backend& b, const Twin& twin) { b.join_columns(twin(joined), twin(part), column); });
}

// --- normalisation, rotation, activation

void CheckedBackend::rms_norm(const Tensor& y, const Tensor& rstd, const Tensor& x, const Tensor& w,
                              double eps) {
  check("rms_norm", {reads(x), reads(w), writes("y", y), writes("rstd", rstd)},
        [&](Backend& b, const Twin& twin) {
          b.rms_norm(twin(y), twin(rstd), twin(x), twin(w), eps);
        });
}

void CheckedBackend::add_rms_norm(const Tensor& sum, const Tensor& y, const Tensor& rstd,
                                  const Tensor& a, const Tensor& b, const Tensor& w, double eps) {
  check("add_rms_norm",
        {reads(a), reads(b), reads(w), writes("sum", sum), writes("y", y), writes("rstd", rstd)},
        [&](Backend& backend, const Twin& twin) {
          backend.add_rms_norm(twin(sum), twin(y), twin(rstd), twin(a), twin(b), twin(w), eps);
        });
}

void CheckedBackend::rms_norm_backward(const Tensor& d_x, const Tensor& d_w, const Tensor& d_y,
                                       const Tensor& x, const Tensor& w, const Tensor& rstd,
                                       const Tensor& d_residual) {
  const double terms = kTerms * largest(d_y);
  check("rms_norm_backward",
        {reads(d_y), reads(x), reads(w), reads(rstd), reads(d_residual),
         writes("d_x", d_x).at_least(terms * largest(w) * smallest_positive(rstd)),
         changes("d_w", d_w).at_least(terms)},
        [&](Backend& b, const Twin& twin) {
          b.rms_norm_backward(twin(d_x), twin(d_w), twin(d_y), twin(x), twin(w), twin(rstd),
                              twin(d_residual));
        });
}

void CheckedBackend::rope_table(const Tensor& table, const Tensor& positions,
                                const Tensor& inv_freq) {
  check("rope_table", {reads(positions), reads(inv_freq), writes("table", table)},
        [&](Backend& b, const Twin& twin) {
          b.rope_table(twin(table), twin(positions), twin(inv_freq));
        });
}

void CheckedBackend::rope(const Tensor& x, const Tensor& table, bool inverse) {
  check("rope", {reads(table), changes("x", x)},
        [&](Backend& b, const Twin& twin) { b.rope(twin(x), twin(table), inverse); });
}

void CheckedBackend::swiglu(const Tensor& result, const Tensor& gate_up) {
  check("swiglu", {reads(gate_up), writes("out", result)},
        [&](Backend& b, const Twin& twin) { b.swiglu(twin(result), twin(gate_up)); });
}

void CheckedBackend::gate_up(const Tensor& result, const Tensor& gate_up, const Tensor& x,
                             const Tensor& w) {
  const double terms = kTerms * largest(x) * largest(w);
  check("gate_up",
        {reads(x), reads(w), writes("gate_up", gate_up).at_least(terms), writes("out", result)},
        [&](Backend& b, const Twin& twin) {
          b.gate_up(twin(result), twin(gate_up), twin(x), twin(w));
        });
}

void CheckedBackend::swiglu_backward(const Tensor& d_gate_up, const Tensor& d_out,
                                     const Tensor& gate_up) {
  check("swiglu_backward", {reads(d_out), reads(gate_up), writes("d_gate_up", d_gate_up)},
        [&](Backend& b, const Twin& twin) {
          b.swiglu_backward(twin(d_gate_up), twin(d_out), twin(gate_up));
        });
}

void CheckedBackend::split_qkv(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& qkv,
                               const Tensor& bias, const Tensor& table) {
  const auto part = [&](const char* name, const Tensor& x, bool rotated) {
    return bias.defined() || rotated ? writes(name, x) : writes(name, x).exact();
  };
  check("split_qkv",
        {reads(qkv), reads(bias), reads(table), part("q", q, table.defined()),
         part("k", k, table.defined()), part("v", v, false)},
        [&](Backend& b, const Twin& twin) {
          b.split_qkv(twin(q), twin(k), twin(v), twin(qkv), twin(bias), twin(table));
        });
}

void CheckedBackend::split_qkv_backward(const Tensor& d_qkv, const Tensor& d_bias,
                                        const Tensor& d_q, const Tensor& d_k, const Tensor& d_v,
                                        const Tensor& table) {
  const double terms = kTerms * std::max({largest(d_q), largest(d_k), largest(d_v)});
  const OpTensor joined = writes("d_qkv", d_qkv);
  check("split_qkv_backward",
        {reads(d_q), reads(d_k), reads(d_v), reads(table),
         table.defined() ? joined : joined.exact(), changes("d_bias", d_bias).at_least(terms)},
        [&](Backend& b, const Twin& twin) {
          b.split_qkv_backward(twin(d_qkv), twin(d_bias), twin(d_q), twin(d_k), twin(d_v),
                               twin(table));
        });
}

// --- optimizer

void CheckedBackend::sum_squares(const Tensor& result, const Tensor& x) {
  check("sum_squares", {reads(x), changes("out", result)},
        [&](Backend& b, const Twin& twin) { b.sum_squares(twin(result), twin(x)); });
}

void CheckedBackend::adamw(const Tensor& weight, const Tensor& master, const Tensor& grad,
                           const Tensor& exp_avg, const Tensor& exp_avg_sq,
                           const AdamWOptions& options) {
  check("adamw",
        {reads(grad), writes("weight", weight), changes("master", master),
         changes("exp_avg", exp_avg), changes("exp_avg_sq", exp_avg_sq)},
        [&](Backend& b, const Twin& twin) {
          b.adamw(twin(weight), twin(master), twin(grad), twin(exp_avg), twin(exp_avg_sq), options);
        });
}

}  // namespace verlcpp
