#include "cpu/cpu_backend.h"

#include <cstring>
#include <utility>
#include <vector>

#include "cpu/dispatch.h"
#include "cpu/kernels.h"
#include "cpu/memory_pool.h"
#include "tensor/check.h"

// The border: shapes and dtypes are checked here, then the kernel of the dtype is called.

namespace verlcpp::cpu {
namespace {

/// Rows of `width` elements in x; expects no remainder.
int64_t rows_of(const Tensor& x, int64_t width) {
  expects(width > 0 && x.numel() % width == 0,
          "a tensor of shape " + to_string(x.shape()) + " has no rows of " + std::to_string(width));
  return x.numel() / width;
}

size_t row_bytes(const Tensor& x) {
  size_t bytes = static_cast<size_t>(size_of(x.dtype()));
  for (size_t axis = 1; axis < x.shape().size(); ++axis) bytes *= static_cast<size_t>(x.dim(axis));
  return bytes;
}

void expect_same_rows(const Tensor& a, const Tensor& b) {
  expects(!a.shape().empty() && !b.shape().empty() && a.dtype() == b.dtype() &&
              row_bytes(a) == row_bytes(b),
          "rows of " + to_string(a.shape()) + " and " + to_string(b.shape()) + " differ");
}

}  // namespace

CpuBackend::CpuBackend() : pool_(std::make_shared<MemoryPool>()) { use_single_threaded_blas(); }
CpuBackend::~CpuBackend() = default;

// --- memory

Tensor CpuBackend::allocate(DType dtype, Shape shape, MemoryTag tag) {
  std::shared_ptr<std::byte> block = pool_->allocate(numel_of(shape) * size_of(dtype), tag);
  std::byte* data = block.get();
  return {dtype, std::move(shape), std::move(block), data};
}

void CpuBackend::fill_zero(const Tensor& x) {
  std::memset(x.data(), 0, static_cast<size_t>(x.bytes()));
}

void CpuBackend::copy(const Tensor& dst, const Tensor& src) {
  expects(dst.numel() == src.numel(),
          "copy of " + to_string(src.shape()) + " into " + to_string(dst.shape()));
  if (dst.dtype() == src.dtype()) {
    std::memmove(dst.data(), src.data(), static_cast<size_t>(src.bytes()));
    return;
  }
  convert(dst.data(), dst.dtype(), src.data(), src.dtype(), src.numel());
}

void CpuBackend::write(const Tensor& dst, std::span<const std::byte> src) {
  expects(std::cmp_equal(src.size(), dst.bytes()), "write of another number of bytes");
  if (!src.empty()) std::memcpy(dst.data(), src.data(), src.size());
}

void CpuBackend::read(std::span<std::byte> dst, const Tensor& src) {
  expects(std::cmp_equal(dst.size(), src.bytes()), "read of another number of bytes");
  if (!dst.empty()) std::memcpy(dst.data(), src.data(), dst.size());
}

void CpuBackend::synchronize() {}

PendingRead CpuBackend::read_later(const Tensor& x) {
  std::vector<std::byte> bytes(static_cast<size_t>(x.bytes()));
  read(bytes, x);
  return [bytes = std::move(bytes)] { return std::span(bytes); };
}

HostWork CpuBackend::run_on_host(const std::vector<Tensor>& inputs,
                                 const std::vector<Tensor>& outputs, HostCode code) {
  std::vector<std::span<const std::byte>> in;
  std::vector<std::span<std::byte>> out;
  for (const Tensor& x : inputs) in.emplace_back(x.data(), static_cast<size_t>(x.bytes()));
  for (const Tensor& x : outputs) out.emplace_back(x.data(), static_cast<size_t>(x.bytes()));
  code(in, out);
  return {};
}

void CpuBackend::replay(const std::string&, const std::function<void()>& body) { body(); }

void CpuBackend::forget_replays() {}

MemoryBytes CpuBackend::peak_bytes() const { return pool_->peak_bytes(); }

void CpuBackend::reset_peak_bytes() { pool_->reset_peak_bytes(); }

int64_t CpuBackend::reserved_bytes() const { return pool_->reserved_bytes(); }

// --- dense

void CpuBackend::matmul(const Tensor& c, const Tensor& a, const Tensor& b, bool transpose_a,
                        bool transpose_b, bool accumulate) {
  expect_rank(c, "c", 2);
  expect_rank(a, "a", 2);
  expect_rank(b, "b", 2);
  const int64_t m = c.dim(0), n = c.dim(1), k = a.dim(transpose_a ? 0 : 1);
  if (transpose_a) {
    expect_tensor(a, "a (transposed)", c.dtype(), {k, m});
  } else {
    expect_tensor(a, "a", c.dtype(), {m, k});
  }
  if (transpose_b) {
    expect_tensor(b, "b (transposed)", c.dtype(), {n, k});
  } else {
    expect_tensor(b, "b", c.dtype(), {k, n});
  }
  dispatch(c.dtype(), [&]<class T>() {
    gemm<T>(transpose_a, transpose_b, m, n, k, 1, a.as<T>(), a.dim(1), b.as<T>(), b.dim(1),
            accumulate ? 1 : 0, c.as<T>(), n);
  });
}

void CpuBackend::add(const Tensor& out, const Tensor& a, const Tensor& b) {
  expect_like(a, "a", out);
  expect_like(b, "b", out);
  dispatch(out.dtype(),
           [&]<class T>() { cpu::add(out.numel(), out.as<T>(), a.as<T>(), b.as<T>()); });
}

// --- rows

void CpuBackend::embedding(const Tensor& out, const Tensor& table, const Tensor& ids,
                           int64_t first) {
  expect_rank(table, "table", 2);
  const int64_t rows = ids.numel(), vocab = table.dim(0), width = table.dim(1);
  expect_tensor(out, "out", table.dtype(), {rows, width});
  dispatch(table.dtype(), [&]<class T>() {
    cpu::embedding(rows, vocab, width, out.as<T>(), table.as<T>(), ids.as<int32_t>(), first);
  });
}

void CpuBackend::embedding_backward(const Tensor& d_table, const Tensor& d_out, const Tensor& ids,
                                    int64_t first) {
  expect_rank(d_table, "d_table", 2);
  const int64_t rows = ids.numel(), vocab = d_table.dim(0), width = d_table.dim(1);
  expect_tensor(d_out, "d_out", d_table.dtype(), {rows, width});
  dispatch(d_table.dtype(), [&]<class T>() {
    cpu::embedding_backward(rows, vocab, width, d_table.as<T>(), d_out.as<T>(), ids.as<int32_t>(),
                            first);
  });
}

void CpuBackend::gather_rows(const Tensor& out, const Tensor& x, const Tensor& rows) {
  expect_same_rows(out, x);
  expects(out.dim(0) == rows.numel(), "gather_rows: one row of out per index");
  cpu::gather_rows(rows.numel(), x.dim(0), row_bytes(x), out.data(), x.data(), rows.as<int32_t>());
}

void CpuBackend::scatter_rows(const Tensor& out, const Tensor& x, const Tensor& rows) {
  expect_same_rows(out, x);
  expects(x.dim(0) == rows.numel(), "scatter_rows: one row of x per index");
  cpu::scatter_rows(rows.numel(), out.dim(0), row_bytes(x), out.data(), x.data(),
                    rows.as<int32_t>());
}

void CpuBackend::join_columns(const Tensor& joined, const Tensor& part, int64_t column) {
  expect_rank(joined, "joined", 2);
  expect_rank(part, "part", 2);
  expect_tensor(part, "part", joined.dtype(), {joined.dim(0), part.dim(1)});
  expects(column >= 0 && column + part.dim(1) <= joined.dim(1), "join_columns: out of columns");
  cpu::join_columns(joined.dim(0), row_bytes(joined),
                    static_cast<size_t>(column * size_of(joined.dtype())), row_bytes(part),
                    joined.data(), part.data());
}

// --- normalisation, rotation, activation

void CpuBackend::rms_norm(const Tensor& y, const Tensor& rstd, const Tensor& x, const Tensor& w,
                          double eps) {
  const int64_t width = w.numel(), rows = rows_of(x, width);
  expect_like(y, "y", x);
  expects(rstd.numel() == rows, "rms_norm: one rstd per row");
  dispatch(x.dtype(), [&]<class T>() {
    cpu::rms_norm(rows, width, y.as<T>(), rstd.as<T>(), x.as<T>(), w.as<T>(), eps);
  });
}

void CpuBackend::add_rms_norm(const Tensor& sum, const Tensor& y, const Tensor& rstd,
                              const Tensor& a, const Tensor& b, const Tensor& w, double eps) {
  CpuBackend::add(sum, a, b);
  CpuBackend::rms_norm(y, rstd, sum, w, eps);
}

void CpuBackend::rms_norm_backward(const Tensor& d_x, const Tensor& d_w, const Tensor& d_y,
                                   const Tensor& x, const Tensor& w, const Tensor& rstd,
                                   const Tensor& d_residual) {
  const int64_t width = w.numel(), rows = rows_of(x, width);
  expect_like(d_x, "d_x", x);
  expect_like(d_y, "d_y", x);
  if (d_residual.defined()) expect_like(d_residual, "d_residual", x);
  expects(d_w.numel() == width && rstd.numel() == rows, "rms_norm_backward: shapes of d_w, rstd");
  dispatch(x.dtype(), [&]<class T>() {
    cpu::rms_norm_backward(rows, width, d_x.as<T>(), d_w.as<T>(), d_y.as<T>(), x.as<T>(), w.as<T>(),
                           rstd.as<T>(), pointer_or_null<T>(d_residual));
  });
}

void CpuBackend::rope_table(const Tensor& table, const Tensor& positions, const Tensor& inv_freq) {
  const int64_t rows = positions.numel(), half = inv_freq.numel();
  expect_tensor(table, "table", inv_freq.dtype(), {rows, 2 * half});
  dispatch(table.dtype(), [&]<class T>() {
    cpu::rope_table(rows, 2 * half, table.as<T>(), positions.as<int32_t>(), inv_freq.as<T>());
  });
}

void CpuBackend::rope(const Tensor& x, const Tensor& table, bool inverse) {
  expect_rank(x, "x", 3);
  const int64_t rows = x.dim(0), heads = x.dim(1), head_dim = x.dim(2);
  expects(head_dim % 2 == 0, "rope: the head dim is odd");
  expect_tensor(table, "table", x.dtype(), {rows, head_dim});
  dispatch(x.dtype(),
           [&]<class T>() { cpu::rope(rows, heads, head_dim, x.as<T>(), table.as<T>(), inverse); });
}

void CpuBackend::swiglu(const Tensor& out, const Tensor& gate_up) {
  expect_rank(out, "out", 2);
  const int64_t rows = out.dim(0), ffn = out.dim(1);
  expect_tensor(gate_up, "gate_up", out.dtype(), {rows, 2 * ffn});
  dispatch(out.dtype(), [&]<class T>() { cpu::swiglu(rows, ffn, out.as<T>(), gate_up.as<T>()); });
}

void CpuBackend::gate_up(const Tensor& out, const Tensor& gate_up, const Tensor& x,
                         const Tensor& w) {
  const Tensor both = gate_up.defined() ? gate_up
                                        : allocate(out.dtype(), {out.dim(0), 2 * out.dim(1)},
                                                   MemoryTag::kWorkspace);
  matmul(both, x, w, false, true, false);
  swiglu(out, both);
}

void CpuBackend::swiglu_backward(const Tensor& d_gate_up, const Tensor& d_out,
                                 const Tensor& gate_up) {
  expect_rank(d_out, "d_out", 2);
  const int64_t rows = d_out.dim(0), ffn = d_out.dim(1);
  expect_tensor(gate_up, "gate_up", d_out.dtype(), {rows, 2 * ffn});
  expect_like(d_gate_up, "d_gate_up", gate_up);
  dispatch(d_out.dtype(), [&]<class T>() {
    cpu::swiglu_backward(rows, ffn, d_gate_up.as<T>(), d_out.as<T>(), gate_up.as<T>());
  });
}

// --- optimizer

void CpuBackend::sum_squares(const Tensor& out, const Tensor& x) {
  expects(out.numel() == 1, "sum_squares writes one element");
  dispatch(x.dtype(),
           [&]<class T>() { *out.as<double>() += cpu::sum_squares(x.numel(), x.as<T>()); });
}

void CpuBackend::adamw(const Tensor& weight, const Tensor& master, const Tensor& grad,
                       const Tensor& exp_avg, const Tensor& exp_avg_sq,
                       const AdamWOptions& options) {
  const int64_t n = master.numel();
  expects(grad.numel() == n && exp_avg.numel() == n && exp_avg_sq.numel() == n,
          "adamw: ranges of different sizes");
  expects(options.step >= 1, "adamw: steps count from 1");
  dispatch(master.dtype(), [&]<class T>() {
    cpu::adamw(n, master.as<T>(), grad.as<T>(), exp_avg.as<T>(), exp_avg_sq.as<T>(), options);
  });
  if (weight.data() != master.data()) copy(weight, master);
}

}  // namespace verlcpp::cpu
