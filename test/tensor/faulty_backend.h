#pragma once

#include <functional>
#include <map>
#include <string>

#include "cpu/cpu_backend.h"

namespace verlcpp::test {

/// A CpuBackend with one op that spoils one of its outputs after computing it rightly.
class FaultyBackend final : public cpu::CpuBackend {
 public:
  using Fault = std::function<void(const Tensor& output)>;
  FaultyBackend(std::string op, Fault fault) : op_(std::move(op)), fault_(std::move(fault)) {}

  void matmul(const Tensor& c, const Tensor& a, const Tensor& b, bool transpose_a, bool transpose_b,
              bool accumulate) override {
    CpuBackend::matmul(c, a, b, transpose_a, transpose_b, accumulate);
    spoil("matmul", c);
  }
  void gather_rows(const Tensor& out, const Tensor& x, const Tensor& rows) override {
    CpuBackend::gather_rows(out, x, rows);
    spoil("gather_rows", out);
  }
  void scatter_rows(const Tensor& out, const Tensor& x, const Tensor& rows) override {
    CpuBackend::scatter_rows(out, x, rows);
    spoil("scatter_rows", out);
  }
  void rms_norm_backward(const Tensor& d_x, const Tensor& d_w, const Tensor& d_y, const Tensor& x,
                         const Tensor& w, const Tensor& rstd, const Tensor& d_residual) override {
    CpuBackend::rms_norm_backward(d_x, d_w, d_y, x, w, rstd, d_residual);
    spoil("rms_norm_backward", d_x);
    spoil("rms_norm_backward d_w", d_w);
  }
  void gate_up(const Tensor& out, const Tensor& gate_up, const Tensor& x,
               const Tensor& w) override {
    CpuBackend::gate_up(out, gate_up, x, w);
    spoil("gate_up", out);
    if (gate_up.defined()) spoil("gate_up gate_up", gate_up);
  }
  void rope(const Tensor& x, const Tensor& table, bool inverse) override {
    CpuBackend::rope(x, table, inverse);
    spoil("rope", x);
  }
  void split_qkv(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& qkv,
                 const Tensor& bias, const Tensor& table) override {
    CpuBackend::split_qkv(q, k, v, qkv, bias, table);
    spoil("split_qkv", v);
  }
  void split_qkv_backward(const Tensor& d_qkv, const Tensor& d_bias, const Tensor& d_q,
                          const Tensor& d_k, const Tensor& d_v, const Tensor& table) override {
    CpuBackend::split_qkv_backward(d_qkv, d_bias, d_q, d_k, d_v, table);
    if (d_bias.defined()) spoil("split_qkv_backward d_bias", d_bias);
  }
  void attention_block(AttentionMask mask, const AttentionSpans& spans, double scale,
                       const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& o,
                       const Tensor& lse) override {
    CpuBackend::attention_block(mask, spans, scale, q, k, v, o, lse);
    spoil("attention_block", o);
    spoil("attention_block lse", lse);
  }
  void sample(const Tensor& ids, const Tensor& log_prob, const Tensor& logits,
              const Tensor& counters, const SamplingOptions& options) override {
    CpuBackend::sample(ids, log_prob, logits, counters, options);
    spoil("sample", ids);
    spoil("sample log_prob", log_prob);
  }
  void adamw(const Tensor& weight, const Tensor& master, const Tensor& grad, const Tensor& exp_avg,
             const Tensor& exp_avg_sq, const AdamWOptions& options) override {
    CpuBackend::adamw(weight, master, grad, exp_avg, exp_avg_sq, options);
    spoil("adamw", weight);
    spoil("adamw exp_avg_sq", exp_avg_sq);
  }

 private:
  void spoil(const std::string& op, const Tensor& output) const {
    if (op == op_) fault_(output);
  }

  std::string op_;
  Fault fault_;
};

}  // namespace verlcpp::test
