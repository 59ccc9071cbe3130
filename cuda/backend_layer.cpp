#include <string>

#include "cuda/backend.h"
#include "cuda/kernels.h"
#include "tensor/check.h"

// The border of the ops of a layer around attention, as in backend.cpp.

namespace verlcpp::cuda {
namespace {

/// Rows of `width` elements in x; expects no remainder.
int64_t rows_of(const Tensor& x, int64_t width) {
  expects(width > 0 && x.numel() % width == 0,
          "a tensor of shape " + to_string(x.shape()) + " has no rows of " + std::to_string(width));
  return x.numel() / width;
}

}  // namespace

void CudaBackend::rms_norm(const Tensor& y, const Tensor& rstd, const Tensor& x, const Tensor& w,
                           double eps) {
  const int64_t width = w.numel(), rows = rows_of(x, width);
  expect_like(y, "y", x);
  expects(rstd.numel() == rows && w.dtype() == x.dtype(), "rms_norm: rstd or w do not match x");
  cuda::rms_norm(stream_, x.dtype(), rows, width, y.data(), rstd.as<float>(), x.data(), w.data(),
                 eps, nullptr, nullptr);
}

void CudaBackend::add_rms_norm(const Tensor& sum, const Tensor& y, const Tensor& rstd,
                               const Tensor& a, const Tensor& b, const Tensor& w, double eps) {
  const int64_t width = w.numel(), rows = rows_of(a, width);
  for (const Tensor& x : {sum, y, b}) expect_like(x, "add_rms_norm: a tensor", a);
  expects(rstd.numel() == rows && w.dtype() == a.dtype(), "add_rms_norm: rstd or w do not match a");
  cuda::rms_norm(stream_, a.dtype(), rows, width, y.data(), rstd.as<float>(), a.data(), w.data(),
                 eps, sum.data(), b.data());
}

float* CudaBackend::parts_of(int64_t width) {
  if (!parts_.defined() || parts_.numel() < kMostParts * width) {
    parts_ = allocate(DType::kFloat32, {kMostParts * width}, MemoryTag::kWorkspace);
  }
  return parts_.as<float>();
}

void CudaBackend::rms_norm_backward(const Tensor& d_x, const Tensor& d_w, const Tensor& d_y,
                                    const Tensor& x, const Tensor& w, const Tensor& rstd,
                                    const Tensor& d_residual) {
  const int64_t width = w.numel(), rows = rows_of(x, width);
  expect_like(d_x, "d_x", x);
  expect_like(d_y, "d_y", x);
  expects(d_w.numel() == width && rstd.numel() == rows, "rms_norm_backward: shapes of d_w, rstd");
  if (d_residual.defined()) expect_like(d_residual, "d_residual", x);
  cuda::rms_norm_backward(stream_, x.dtype(), rows, width, d_x.data(), d_w.as<float>(), d_y.data(),
                          x.data(), w.data(), rstd.as<float>(), d_residual.data(), parts_of(width));
}

void CudaBackend::rope_table(const Tensor& table, const Tensor& positions, const Tensor& inv_freq) {
  const int64_t rows = positions.numel(), half = inv_freq.numel();
  expect_tensor(table, "table", DType::kFloat32, {rows, 2 * half});
  cuda::rope_table(stream_, rows, 2 * half, table.as<float>(), positions.as<int32_t>(),
                   inv_freq.as<float>());
}

void CudaBackend::rope(const Tensor& x, const Tensor& table, bool inverse) {
  expect_rank(x, "x", 3);
  const int64_t rows = x.dim(0), heads = x.dim(1), head_dim = x.dim(2);
  expects(head_dim % 2 == 0, "rope: the head dim is odd");
  expect_tensor(table, "table", DType::kFloat32, {rows, head_dim});
  cuda::rope(stream_, x.dtype(), rows, heads, head_dim, x.data(), table.as<float>(), inverse);
}

void CudaBackend::swiglu(const Tensor& out, const Tensor& gate_up) {
  expect_rank(out, "out", 2);
  expect_tensor(gate_up, "gate_up", out.dtype(), {out.dim(0), 2 * out.dim(1)});
  cuda::swiglu(stream_, out.dtype(), out.dim(0), out.dim(1), out.data(), gate_up.data());
}

void CudaBackend::gate_up(const Tensor& out, const Tensor& gate_up, const Tensor& x,
                          const Tensor& w) {
  expect_rank(out, "out", 2);
  expect_rank(x, "x", 2);
  const GateUpShape shape{.rows = out.dim(0), .ffn = out.dim(1), .width = x.dim(1)};
  expect_tensor(x, "x", out.dtype(), {shape.rows, shape.width});
  expect_tensor(w, "w", out.dtype(), {2 * shape.ffn, shape.width});
  const bool keeps = gate_up.defined();
  if (keeps) expect_tensor(gate_up, "gate_up", out.dtype(), {shape.rows, 2 * shape.ffn});
  if (out.dtype() == DType::kBFloat16 &&
      multiplies_gate_up(shape,
                         {out.data(), keeps ? gate_up.data() : nullptr, x.data(), w.data()})) {
    cuda::gate_up(stream_, shape, out.data(), keeps ? gate_up.data() : nullptr, x.data(), w.data());
    return bound_run_ahead();
  }
  const Tensor both =
      keeps ? gate_up : allocate(out.dtype(), {shape.rows, 2 * shape.ffn}, MemoryTag::kWorkspace);
  matmul(both, x, w, false, true, false);
  swiglu(out, both);
}

void CudaBackend::swiglu_backward(const Tensor& d_gate_up, const Tensor& d_out,
                                  const Tensor& gate_up) {
  expect_rank(d_out, "d_out", 2);
  expect_tensor(gate_up, "gate_up", d_out.dtype(), {d_out.dim(0), 2 * d_out.dim(1)});
  expect_like(d_gate_up, "d_gate_up", gate_up);
  cuda::swiglu_backward(stream_, d_out.dtype(), d_out.dim(0), d_out.dim(1), d_gate_up.data(),
                        d_out.data(), gate_up.data());
}

}  // namespace verlcpp::cuda
