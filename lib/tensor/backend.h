#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/rng.h"
#include "tensor/host_work.h"
#include "tensor/memory.h"
#include "tensor/tensor.h"

// Shape letters: T packed local tokens, S sequences (documents), D model, N query heads, K kv
// heads, H head dim, F ffn, V vocabulary, R rows of the head (tokens whose log-prob is wanted), B
// sequences being decoded. "float" below is the compute dtype of the run (float64 or float32 on the
// CPU).

namespace verlcpp {

/// `kCausal`: row i of q sees kv rows 0..i. `kBottomRight`: row i of q sees kv rows
/// 0..i + kv_length - q_length (q is the tail of the sequence). `kNone`: everything.
enum class AttentionMask { kNone, kCausal, kBottomRight };

/// Row ranges of one attention call, one entry a document: q rows [q_offset, q_offset + q_length)
/// attend to kv rows [kv_offset, kv_offset + kv_length). int32 on the device. The q ranges of one
/// call do not overlap, nor do its kv ranges.
struct AttentionSpans {
  Tensor q_offset_S, q_length_S, kv_offset_S, kv_length_S;
  // On the host, for launch sizes and grouping.
  std::vector<int32_t> q_lengths, kv_lengths;
  int64_t max_q_length = 0;
  int64_t max_kv_length = 0;
  /// What a backend makes of the ranges at their first use (offsets in its library's units), kept
  /// for the calls of the other layers. Nobody else looks at it.
  mutable std::shared_ptr<void> backend_state;
};

/// One call of attention_block, or of its backward, as the host knows it before there are tensors.
struct AttentionCall {
  AttentionMask mask = AttentionMask::kCausal;
  double scale = 1;
  DType dtype = DType::kFloat32;  // of q, k and v
  int64_t q_rows = 0, kv_rows = 0, heads = 0, kv_heads = 0, head_dim = 0;
  std::span<const int32_t> q_lengths, kv_lengths;  // as in AttentionSpans; not owned
  bool backward = false;
};

struct AdamWOptions {
  double lr = 0, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0;
  int64_t step = 1;         // 1-based, for the bias correction
  double grad_scale = 1.0;  // multiplies the gradient first (clipping)
};

/// How rows are sampled. Greedy when temperature <= 0.
struct SamplingOptions {
  double temperature = 1.0;
  int64_t top_k = -1;  // <= 0: all
  double top_p = 1.0;
  PhiloxKey key{};
};

/// Host code between two ops. It sees the bytes of inputs and fills those of outputs, in the order
/// in which the tensors were given.
using HostCode = std::function<void(std::span<const std::span<const std::byte>> inputs,
                                    std::span<const std::span<std::byte>> outputs)>;

/// A read that is on its way: waits until its bytes are there and hands them out. They stay as long
/// as this does. To be called by the backend's thread.
using PendingRead = std::function<std::span<const std::byte>()>;

/// Where the KV cache holds the sequences being decoded. Position j of sequence b is cache row
/// tables_BM[b][j / block] * block + j % block.
struct KvPages {
  Tensor tables_BM;    // int32: the M blocks of each sequence, those in use first
  Tensor positions_B;  // int32: of each sequence's new token; negative: no sequence in this row
  int64_t block = 0;   // positions in a block
};

/// What is left of logits for their gradient: the logits themselves, of the dtype of statistics;
/// or, with `shift_RG`, half of those bytes. Then values_RV (float16) are z / ln 2 - shift, where
/// the shift is the largest of a row's group of kKeptGroup columns: what is likely is held exactly.
struct KeptLogits {
  Tensor values_RV, shift_RG;
  KeptLogits rows(int64_t first, int64_t count) const;
};
inline constexpr int64_t kKeptGroup = 256;
inline int64_t kept_groups(int64_t vocab) { return (vocab + kKeptGroup - 1) / kKeptGroup; }

/// Whether a narrow dtype's head_stats forms logits without memory for them: rows of whole 16
/// bytes.
inline bool head_in_registers(int64_t vocab, int64_t width) {
  return vocab % 8 == 0 && width % 8 == 0;
}

/// Whether a narrow dtype's gate_up forms gate and up without memory for them: rows of whole 16
/// bytes, and as many as give a device's tiles of products work.
inline constexpr int64_t kRowsOfGates = 1024;
inline bool gates_in_registers(int64_t rows, int64_t ffn, int64_t width) {
  return rows >= kRowsOfGates && ffn % 8 == 0 && width % 8 == 0 && width > 0;
}

/// The op list of one device and its compute stream. Every op is enqueued; of all calls
/// `read` and `synchronize` make the host wait, `write` and products when much is on its way.
/// Shapes are checked at the border (expects). Unless an op says "accumulates" (+=), outputs are
/// overwritten. Any leading dimension may be zero.
class Backend {
 public:
  virtual ~Backend() = default;

  // --- memory -----------------------------------------------------------------------------------
  /// Uninitialised memory.
  virtual Tensor allocate(DType dtype, Shape shape, MemoryTag tag) = 0;
  virtual void fill_zero(const Tensor& x) = 0;
  /// Copies numel elements; converts between floating dtypes.
  virtual void copy(const Tensor& dst, const Tensor& src) = 0;
  /// Host to device / device to host, same dtype, exactly bytes() bytes.
  virtual void write(const Tensor& dst, std::span<const std::byte> src) = 0;
  virtual void read(std::span<std::byte> dst, const Tensor& src) = 0;
  virtual void synchronize() = 0;
  /// Enqueues a copy of x, as it is after the ops so far, to the host. Nobody waits until the bytes
  /// are asked for, and then for them alone.
  virtual PendingRead read_later(const Tensor& x) = 0;
  /// Enqueues host code: it runs after the ops before it, and before those that are enqueued once
  /// its work was waited for. Maybe on another thread and after the caller has moved on or failed,
  /// so it owns what it uses; it must not call a backend. What it throws comes out of the next call
  /// that makes the host wait.
  virtual HostWork run_on_host(const std::vector<Tensor>& inputs,
                               const std::vector<Tensor>& outputs, HostCode code) = 0;
  /// Runs `body`, whose work is the same for every call with this key, on the same tensors: a
  /// backend may note its ops once and enqueue them again without calling it. So the body only
  /// calls ops and allocate; what changes from call to call it reads from device memory, and what
  /// it leaves behind it writes to tensors made outside of it.
  virtual void replay(const std::string& key, const std::function<void()>& body) = 0;
  /// Forgets what replay has noted, with the memory it keeps for that.
  virtual void forget_replays() = 0;
  /// Most bytes asked for at one time since start, or since the last reset: by tag and of the
  /// whole.
  virtual MemoryBytes peak_bytes() const = 0;
  /// What is allocated now is the peak so far.
  virtual void reset_peak_bytes() = 0;
  /// Bytes taken from the machine, with rounding and with what lies idle.
  virtual int64_t reserved_bytes() const = 0;

  // --- dense ------------------------------------------------------------------------------------
  /// c_MN = op(a) op(b), or += when `accumulate`; op transposes when asked. a and b are of one
  /// dtype, c is of theirs or of the wider dtype of statistics (weight gradients, logits).
  virtual void matmul(const Tensor& c_MN, const Tensor& a, const Tensor& b, bool transpose_a,
                      bool transpose_b, bool accumulate) = 0;
  /// out = a + b, elementwise; out may alias either.
  virtual void add(const Tensor& out, const Tensor& a, const Tensor& b) = 0;

  // --- rows -------------------------------------------------------------------------------------
  /// out_TD[t] = table_VD[ids_T[t] - first]; zeros for ids outside of [first, first + V), which
  /// another rank of the vocabulary holds.
  virtual void embedding(const Tensor& out_TD, const Tensor& table_VD, const Tensor& ids_T,
                         int64_t first) = 0;
  /// d_table_VD[ids_T[t] - first] += d_out_TD[t], in row order, for ids in [first, first + V).
  virtual void embedding_backward(const Tensor& d_table_VD, const Tensor& d_out_TD,
                                  const Tensor& ids_T, int64_t first) = 0;
  /// out_R*[r] = x_T*[rows_R[r]].
  virtual void gather_rows(const Tensor& out_RX, const Tensor& x_TX, const Tensor& rows_R) = 0;
  /// out_T*[rows_R[r]] = x_R*[r]; the other rows stay. `rows_R` has no duplicates.
  virtual void scatter_rows(const Tensor& out_TX, const Tensor& x_RX, const Tensor& rows_R) = 0;
  /// joined_TX[t][column + y] = part_TY[t][y]; the other columns stay.
  virtual void join_columns(const Tensor& joined_TX, const Tensor& part_TY, int64_t column) = 0;

  // --- normalisation, rotation, activation: each visits memory once
  // --------------------------------
  /// y = x * rstd * w, rstd_T = 1 / sqrt(mean(x^2) + eps), over rows of the last axis.
  virtual void rms_norm(const Tensor& y_TD, const Tensor& rstd_T, const Tensor& x_TD,
                        const Tensor& w_D, double eps) = 0;
  /// The residual stream and its norm: sum = a + b (may alias either), y = rms_norm(sum), to the
  /// bits of rms_norm on the stored sum.
  virtual void add_rms_norm(const Tensor& sum_TD, const Tensor& y_TD, const Tensor& rstd_T,
                            const Tensor& a_TD, const Tensor& b_TD, const Tensor& w_D,
                            double eps) = 0;
  /// d_x_TD = gradient (overwrites; may alias d_y_TD or d_residual_TD), plus d_residual_TD where
  /// that is defined; d_w_D += gradient.
  virtual void rms_norm_backward(const Tensor& d_x_TD, const Tensor& d_w_D, const Tensor& d_y_TD,
                                 const Tensor& x_TD, const Tensor& w_D, const Tensor& rstd_T,
                                 const Tensor& d_residual_TD) = 0;
  /// Of the angles positions_T * inv_freq_h (h = H/2), in float64 and then rounded: cosines in
  /// columns [0, H/2), sines in [H/2, H). In the dtype of statistics, as inv_freq.
  virtual void rope_table(const Tensor& table_TH, const Tensor& positions_T,
                          const Tensor& inv_freq_h) = 0;
  /// Rotates in place, pairs (i, i + H/2) (Hugging Face's rotate_half), by the table's angles.
  /// `inverse` rotates back, which is also the backward.
  virtual void rope(const Tensor& x_TNH, const Tensor& table_TH, bool inverse) = 0;
  /// out_TF = silu(gate) * up, where gate_up_T2F holds the gate in columns [0, F), up in [F, 2F).
  virtual void swiglu(const Tensor& out_TF, const Tensor& gate_up_T2F) = 0;
  virtual void swiglu_backward(const Tensor& d_gate_up_T2F, const Tensor& d_out_TF,
                               const Tensor& gate_up_T2F) = 0;
  /// gate_up_T2F = x_TD w_2FD^T and out_TF = swiglu of it, to the bits of swiglu on what is stored.
  /// gate_up_T2F may be left undefined where nobody needs it: without workspace for it on a GPU, in
  /// bfloat16 and where gates_in_registers.
  virtual void gate_up(const Tensor& out_TF, const Tensor& gate_up_T2F, const Tensor& x_TD,
                       const Tensor& w_2FD) = 0;
  /// qkv_TX (X = (N + 2K) H) into q_TNH, k_TKH, v_TKH: plus bias_X where that is defined, then q
  /// and k rotated as by `rope` where the table is. H is even.
  virtual void split_qkv(const Tensor& q_TNH, const Tensor& k_TKH, const Tensor& v_TKH,
                         const Tensor& qkv_TX, const Tensor& bias_X, const Tensor& table_TH) = 0;
  /// Of the same call: d_qkv_TX = gradient, d_bias_X (where defined) += gradient.
  virtual void split_qkv_backward(const Tensor& d_qkv_TX, const Tensor& d_bias_X,
                                  const Tensor& d_q_TNH, const Tensor& d_k_TKH,
                                  const Tensor& d_v_TKH, const Tensor& table_TH) = 0;

  // --- attention --------------------------------------------------------------------------------
  /// Makes ready, without computing anything, what such a call takes long to make. Returns how
  /// many plans of a library that built: 0 where nothing needs any, or all are there.
  virtual int64_t prepare_attention(const AttentionCall& call) = 0;
  /// Scaled dot-product attention of q rows over kv rows, query head n using kv head n / (N/K).
  /// lse_TN is the natural-log sum of exp of scaled scores. Rows without a visible kv row (also
  /// rows in no span) get o = 0, lse = -inf.
  virtual void attention_block(AttentionMask mask, const AttentionSpans& spans, double scale,
                               const Tensor& q_TNH, const Tensor& k_TKH, const Tensor& v_TKH,
                               const Tensor& o_TNH, const Tensor& lse_TN) = 0;
  /// Attention of one new token a sequence to itself and to all positions before it: writes its k
  /// and v to the cache, then o_BNH as attention_block does. Rows without a sequence get o = 0.
  virtual void decode_attention(const KvPages& pages, double scale, const Tensor& q_BNH,
                                const Tensor& k_BKH, const Tensor& v_BKH, const Tensor& cache_k_CKH,
                                const Tensor& cache_v_CKH, const Tensor& o_BNH) = 0;
  /// Merges a partial result over other kv rows into (o, lse):
  /// lse' = logaddexp(lse, lse_part), o' = o exp(lse - lse') + o_part exp(lse_part - lse').
  virtual void attention_merge(const Tensor& o_TNH, const Tensor& lse_TN, const Tensor& o_part_TNH,
                               const Tensor& lse_part_TN) = 0;
  /// Backward of one block given the *global* o (merged over all blocks) and lse of its q rows.
  /// With `accumulate` d_q, d_k, d_v are += and of the dtype of statistics; without, every row is
  /// overwritten (0 where no span reaches) and they are of that dtype or of q's.
  virtual void attention_block_backward(AttentionMask mask, const AttentionSpans& spans,
                                        double scale, const Tensor& q_TNH, const Tensor& k_TKH,
                                        const Tensor& v_TKH, const Tensor& o_TNH,
                                        const Tensor& lse_TN, const Tensor& d_o_TNH,
                                        const Tensor& d_q_TNH, const Tensor& d_k_TKH,
                                        const Tensor& d_v_TKH, bool accumulate) = 0;

  // --- head -------------------------------------------------------------------------------------
  // The columns of logits_RV are tokens [first, first + V) of the vocabulary: all of it, or this
  // rank's part (Megatron-LM's vocabulary-parallel cross entropy). Logits are of the dtype of
  // statistics: a bfloat16 of size 20 is wrong by 0.06. z = logits / temperature, where
  // temperatures below 1e-8 count as 1e-8 (verl).
  /// stats_R4 (float64): m = max z, sum of e^(z - m), sum of e^(z - m) (z - m), and z[label], -inf
  /// where the label is in another part.
  virtual void logit_stats(const Tensor& stats_R4, const Tensor& logits_RV, const Tensor& labels_R,
                           const Tensor& temperature_R, int64_t first) = 0;
  /// The same of the logits x_RD w_VD^T, of which `kept` is what remains. In a narrow dtype it may
  /// be empty, or else has a shift; in that of statistics the logits need its memory.
  virtual void head_stats(const Tensor& stats_R4, const KeptLogits& kept, const Tensor& x_RD,
                          const Tensor& w_VD, const Tensor& labels_R, const Tensor& temperature_R,
                          int64_t first) = 0;
  /// From the statistics of all P parts of the vocabulary: lse_R = logsumexp(z), log_prob_R =
  /// z[label] - lse, entropy_R = lse - sum softmax(z) z.
  virtual void token_log_prob(const Tensor& log_prob_R, const Tensor& entropy_R,
                              const Tensor& lse_R, const Tensor& stats_PR4) = 0;
  /// d_logits_RV = [d_lp (1[v=label] - p) - d_ent p (log p + entropy)] / temperature, in the
  /// compute dtype; may lie in the place of the kept values where its elements have their size.
  virtual void token_log_prob_backward(const Tensor& d_logits_RV, const KeptLogits& kept,
                                       const Tensor& labels_R, const Tensor& temperature_R,
                                       const Tensor& entropy_R, const Tensor& lse_R,
                                       const Tensor& d_log_prob_R, const Tensor& d_entropy_R,
                                       int64_t first) = 0;
  /// Picks one token a row of logits (statistics dtype): argmax over v of logits/temperature +
  /// Gumbel, after top-k then top-p. The Gumbel noise of (row, token) is -log(-log u), u =
  /// uniform_open(philox4x32({token / 4, 0, 0, 0}, row_key)[token % 4]), row_key = first two words
  /// of philox4x32(counters_B4[row], key). log_prob_B is the token's log-softmax of
  /// logits/temperature (1 when greedy) before top-k/top-p: what the training log-prob of that
  /// token is.
  virtual void sample(const Tensor& ids_B, const Tensor& log_prob_B, const Tensor& logits_BV,
                      const Tensor& counters_B4, const SamplingOptions& options) = 0;

  /// On to the next token: positions_B += 1 and the last word of counters_B4 += 1, where the
  /// position is not negative.
  virtual void advance_sequences(const Tensor& positions_B, const Tensor& counters_B4) = 0;

  // --- optimizer --------------------------------------------------------------------------------
  /// out_1 (float64, one element) += sum of squares of x.
  virtual void sum_squares(const Tensor& out_1, const Tensor& x) = 0;
  /// AdamW with decoupled decay (Loshchilov & Hutter 2019), in place on equal-sized ranges:
  /// `master` takes the step, `weight` becomes master in its own dtype. They may be one tensor; the
  /// others are of master's dtype.
  virtual void adamw(const Tensor& weight, const Tensor& master, const Tensor& grad,
                     const Tensor& exp_avg, const Tensor& exp_avg_sq,
                     const AdamWOptions& options) = 0;
};

/// Memory for what head_stats keeps of logits [rows, vocab] of a model in `dtype`.
KeptLogits allocate_kept(Backend& backend, DType dtype, int64_t rows, int64_t vocab);

/// Host vector <-> device tensor helpers.
template <class T>
Tensor upload(Backend& backend, std::span<const T> values, Shape shape, MemoryTag tag) {
  Tensor t = backend.allocate(DTypeOf<T>::value, std::move(shape), tag);
  backend.write(t, std::as_bytes(values));
  return t;
}

/// Spans from host values, one entry a document in each.
AttentionSpans upload_spans(Backend& backend, std::span<const int32_t> q_offset,
                            std::span<const int32_t> q_length, std::span<const int32_t> kv_offset,
                            std::span<const int32_t> kv_length);

/// Float values in the run's dtype from host doubles, and back.
Tensor upload_as(Backend& backend, DType dtype, std::span<const double> values, Shape shape,
                 MemoryTag tag);
std::vector<double> download(Backend& backend, const Tensor& x);

/// run_on_host on values: `code` gets those of the inputs and fills those of the outputs, which
/// have their tensors' sizes and are zero. Tensors of float32 and float64.
using HostValues = std::vector<std::vector<double>>;
HostWork compute_on_host(Backend& backend, const std::vector<Tensor>& inputs,
                         const std::vector<Tensor>& outputs,
                         std::function<void(const HostValues& inputs, HostValues& outputs)> code);

}  // namespace verlcpp
