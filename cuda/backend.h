#pragma once

#include <cuda_runtime_api.h>

#include <deque>
#include <functional>
#include <memory>
#include <utility>

#include "cuda/attention_cudnn.h"
#include "cuda/event.h"
#include "cuda/host_calls.h"
#include "cuda/matmul.h"
#include "cuda/memory.h"
#include "cuda/pending_reads.h"
#include "cuda/replays.h"
#include "cuda/runtime.h"
#include "cuda/staging.h"
#include "tensor/backend.h"

namespace verlcpp::cuda {

/// The op list on one GPU, in float32 and bfloat16: activations and weights in the compute dtype,
/// logits, statistics and gradients of parameters in float32. Ops run on one stream, movement
/// between ranks on another. To be used by the thread that made it; tensors may be freed on others.
/// read and synchronize wait, write when 16 MiB are on their way already, and matmul when several
/// hundred launches are.
class CudaBackend final : public Backend {
 public:
  CudaBackend(int device, const BackendOptions& options);
  ~CudaBackend() override;

  int device() const { return device_; }
  cudaStream_t stream() const { return stream_; }
  /// Movement between ranks, beside the compute stream.
  cudaStream_t comm_stream() const { return comm_stream_; }
  /// While the host waits for the GPU: `look` is called again and again and may end the wait by
  /// throwing, `end` when it is over.
  struct WaitHook {
    std::function<void()> look, end;
  };
  void set_wait_hook(WaitHook hook) { wait_hook_ = std::move(hook); }
  /// Graphs that replay goes by now.
  int64_t replay_graphs() const { return replays_->graphs(); }
  /// cuDNN's plans of attention built so far.
  int64_t attention_plans() const { return cudnn_ ? cudnn_->plans() : 0; }

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
  /// Made by the first call that needs it: float32 runs without cuDNN.
  CudnnAttention& cudnn();
  void cudnn_forward(const AttentionArgs& args, const AttentionSpans& spans, const Tensor& o_TNH,
                     const Tensor& lse_TN);
  void cudnn_backward(const AttentionArgs& args, const AttentionSpans& spans, const Tensor& o_TNH,
                      const Tensor& lse_TN, const Tensor& d_o_TNH, const Tensor& d_q_TNH,
                      const Tensor& d_k_TKH, const Tensor& d_v_TKH, bool accumulate);

  /// A body that is captured enqueues ops and nothing else.
  void expect_no_replay(const char* what) const;
  /// The driver queues about a thousand launches; then it lets the host wait for room, where an
  /// abort cannot reach it. So the host waits here, before there are so many: the library's matrix
  /// products, with few launches between them, are counted.
  void bound_run_ahead();
  /// Waits while `query` says cudaErrorNotReady, and throws what host code has thrown.
  void wait_until(const std::function<cudaError_t()>& query);

  int device_;
  BackendOptions options_;
  cudaStream_t stream_ = nullptr, comm_stream_ = nullptr;
  WaitHook wait_hook_;
  int64_t products_ = 0;
  std::deque<Event> marks_;  // one every some products
  std::shared_ptr<MemoryPool> pool_;
  std::unique_ptr<Replays> replays_;
  std::unique_ptr<Staging> staging_;
  std::unique_ptr<PendingReads> pending_reads_;
  std::unique_ptr<HostCalls> host_calls_;
  std::unique_ptr<Matmul> matmul_;
  std::unique_ptr<CudnnAttention> cudnn_;
  /// Room for the parts of a sum over rows (kMostParts) of this width.
  float* parts_of(int64_t width);
  Tensor parts_, sum_partials_;
};

}  // namespace verlcpp::cuda
