#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tensor/backend.h"
#include "tensor/op_twins.h"

namespace verlcpp {

/// Runs every op on two backends with the same inputs and compares what they wrote: the first op
/// whose outputs diverge throws a DeviceError that names op, output, element and values. The run
/// goes on with the subject's results; all its tensors are the subject's. Slow: for every op, its
/// tensors travel to the host and the reference computes too.
///
/// Before an op everything it reads, what it adds to or changes in place included, is copied from
/// the subject, so a difference is the op's own and never an earlier one's. fill_zero and copy are
/// ops; allocate, write, read, read_later and run_on_host are the subject's alone, and `replay`
/// runs its body.
///
/// Tolerances, relative to the largest magnitude of an output (before or after the op, where it
/// changes in place): float64 1e-9, float32 1e-5, bfloat16 and float16 0.02; that of the output's
/// own dtype or of an input's, whichever is coarser. Integers, and ops that only move data, are
/// exact. NaN meets NaN and infinity the same infinity. Where a sum may cancel, its terms set a
/// least scale: a tenth of the product of the factors' largest magnitudes for products and
/// attention's gradients, 1 for what is a logarithm. A sampled id is the reference's unless
/// rounding may have drawn either (SampledRow::may_draw, float32's tolerance); then the
/// log-prob is that of the subject's token.
class CheckedBackend final : public Backend {
 public:
  /// `float_dtype`: what the reference computes floats of all dtypes but float64 in.
  CheckedBackend(std::unique_ptr<Backend> subject, std::unique_ptr<Backend> reference,
                 DType float_dtype = DType::kFloat32);

  /// Ops run and found equal so far.
  int64_t checked_ops() const { return ops_; }

  Tensor allocate(DType dtype, Shape shape, MemoryTag tag) override;
  void fill_zero(const Tensor& x) override;
  void copy(const Tensor& dst, const Tensor& src) override;
  void write(const Tensor& dst, std::span<const std::byte> src) override;
  void read(std::span<std::byte> dst, const Tensor& src) override;
  void synchronize() override;
  PendingRead read_later(const Tensor& x) override;
  HostWork run_on_host(const std::vector<Tensor>& inputs, const std::vector<Tensor>& outputs,
                       HostCode code) override;
  void replay(const std::string& key, const std::function<void()>& body) override;
  void forget_replays() override;
  MemoryBytes peak_bytes() const override;
  int64_t reserved_bytes() const override;
  void reset_peak_bytes() override;

  void matmul(const Tensor& c_MN, const Tensor& a, const Tensor& b, bool transpose_a,
              bool transpose_b, bool accumulate) override;
  void add(const Tensor& out, const Tensor& a, const Tensor& b) override;

  void embedding(const Tensor& out_TD, const Tensor& table_VD, const Tensor& ids_T,
                 int64_t first) override;
  void embedding_backward(const Tensor& d_table_VD, const Tensor& d_out_TD, const Tensor& ids_T,
                          int64_t first) override;
  void gather_rows(const Tensor& out_RX, const Tensor& x_TX, const Tensor& rows_R) override;
  void scatter_rows(const Tensor& out_TX, const Tensor& x_RX, const Tensor& rows_R) override;
  void join_columns(const Tensor& joined_TX, const Tensor& part_TY, int64_t column) override;

  void rms_norm(const Tensor& y_TD, const Tensor& rstd_T, const Tensor& x_TD, const Tensor& w_D,
                double eps) override;
  void add_rms_norm(const Tensor& sum_TD, const Tensor& y_TD, const Tensor& rstd_T,
                    const Tensor& a_TD, const Tensor& b_TD, const Tensor& w_D, double eps) override;
  void rms_norm_backward(const Tensor& d_x_TD, const Tensor& d_w_D, const Tensor& d_y_TD,
                         const Tensor& x_TD, const Tensor& w_D, const Tensor& rstd_T,
                         const Tensor& d_residual_TD) override;
  void rope_table(const Tensor& table_TH, const Tensor& positions_T,
                  const Tensor& inv_freq_h) override;
  void rope(const Tensor& x_TNH, const Tensor& table_TH, bool inverse) override;
  void swiglu(const Tensor& out_TF, const Tensor& gate_up_T2F) override;
  void swiglu_backward(const Tensor& d_gate_up_T2F, const Tensor& d_out_TF,
                       const Tensor& gate_up_T2F) override;
  void gate_up(const Tensor& out_TF, const Tensor& gate_up_T2F, const Tensor& x_TD,
               const Tensor& w_2FD) override;
  void split_qkv(const Tensor& q_TNH, const Tensor& k_TKH, const Tensor& v_TKH,
                 const Tensor& qkv_TX, const Tensor& bias_X, const Tensor& table_TH) override;
  void split_qkv_backward(const Tensor& d_qkv_TX, const Tensor& d_bias_X, const Tensor& d_q_TNH,
                          const Tensor& d_k_TKH, const Tensor& d_v_TKH,
                          const Tensor& table_TH) override;

  int64_t prepare_attention(const AttentionCall& call) override;
  void attention_block(AttentionMask mask, const AttentionSpans& spans, double scale,
                       const Tensor& q_TNH, const Tensor& k_TKH, const Tensor& v_TKH,
                       const Tensor& o_TNH, const Tensor& lse_TN) override;
  void decode_attention(const KvPages& pages, double scale, const Tensor& q_BNH,
                        const Tensor& k_BKH, const Tensor& v_BKH, const Tensor& cache_k_CKH,
                        const Tensor& cache_v_CKH, const Tensor& o_BNH) override;
  void attention_merge(const Tensor& o_TNH, const Tensor& lse_TN, const Tensor& o_part_TNH,
                       const Tensor& lse_part_TN) override;
  void attention_block_backward(AttentionMask mask, const AttentionSpans& spans, double scale,
                                const Tensor& q_TNH, const Tensor& k_TKH, const Tensor& v_TKH,
                                const Tensor& o_TNH, const Tensor& lse_TN, const Tensor& d_o_TNH,
                                const Tensor& d_q_TNH, const Tensor& d_k_TKH, const Tensor& d_v_TKH,
                                bool accumulate) override;

  void logit_stats(const Tensor& stats_R4, const Tensor& logits_RV, const Tensor& labels_R,
                   const Tensor& temperature_R, int64_t first) override;
  void head_stats(const Tensor& stats_R4, const KeptLogits& kept, const Tensor& x_RD,
                  const Tensor& w_VD, const Tensor& labels_R, const Tensor& temperature_R,
                  int64_t first) override;
  void token_log_prob(const Tensor& log_prob_R, const Tensor& entropy_R, const Tensor& lse_R,
                      const Tensor& stats_PR4) override;
  void token_log_prob_backward(const Tensor& d_logits_RV, const KeptLogits& kept,
                               const Tensor& labels_R, const Tensor& temperature_R,
                               const Tensor& entropy_R, const Tensor& lse_R,
                               const Tensor& d_log_prob_R, const Tensor& d_entropy_R,
                               int64_t first) override;
  void sample(const Tensor& ids_B, const Tensor& log_prob_B, const Tensor& logits_BV,
              const Tensor& counters_B4, const SamplingOptions& options) override;
  void advance_sequences(const Tensor& positions_B, const Tensor& counters_B4) override;

  void sum_squares(const Tensor& out_1, const Tensor& x) override;
  void adamw(const Tensor& weight, const Tensor& master, const Tensor& grad, const Tensor& exp_avg,
             const Tensor& exp_avg_sq, const AdamWOptions& options) override;

 private:
  /// Runs an op on a backend with `twin(x)` in place of each tensor x.
  using Twin = std::function<Tensor(const Tensor&)>;
  using Body = std::function<void(Backend&, const Twin&)>;

  /// `body` may use the listed tensors and views of them. The subject runs it first. Undefined
  /// tensors, which an op may do without, stay so.
  void check(const char* op, const std::vector<OpTensor>& tensors, const Body& body);
  void compare(const char* op, const OpTensor& output, const Tensor& twin, double tolerance) const;
  /// A sum's scale is at least this share of the largest terms it can have.
  static constexpr double kTerms = 0.1;
  /// Largest magnitude (0 when undefined), smallest positive value (1 when there is none), of the
  /// subject's tensor.
  double largest(const Tensor& x) const;
  double smallest_positive(const Tensor& x) const;
  bool is_reference(const Backend& backend) const { return &backend == reference_.get(); }
  /// The reference's draw becomes the subject's where both are right.
  void accept_ties(const Tensor& ids, const Tensor& twin_ids, const Tensor& twin_log_prob,
                   const Tensor& twin_logits, const Tensor& twin_counters,
                   const SamplingOptions& options) const;

  std::unique_ptr<Backend> subject_, reference_;
  DType float_dtype_;
  int64_t ops_ = 0;
};

}  // namespace verlcpp
