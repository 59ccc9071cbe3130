#pragma once

#include <memory>
#include <span>
#include <string>

#include "tensor/backend.h"

namespace verlcpp::cpu {

class MemoryPool;

/// The readable definition of every op, in float32 and float64 (16-bit dtypes are storage: `copy`
/// converts). Every op has run when its call returns; results are a function of the inputs alone.
/// One object serves one rank's thread; its tensors may be read and freed on other threads.
/// Index tensors (ids, rows, positions, labels, spans, counters) are int32.
class CpuBackend : public Backend {
 public:
  /// Turns BLAS threads off for the whole process: ranks are threads already.
  explicit CpuBackend();
  ~CpuBackend() override;

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
  void reset_peak_bytes() override;
  int64_t reserved_bytes() const override;

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
  void gate_up(const Tensor& out_TF, const Tensor& gate_up_T2F, const Tensor& x_TD,
               const Tensor& w_2FD) override;
  void swiglu_backward(const Tensor& d_gate_up_T2F, const Tensor& d_out_TF,
                       const Tensor& gate_up_T2F) override;
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
  std::shared_ptr<MemoryPool> pool_;
};

}  // namespace verlcpp::cpu
