#pragma once

#include <cstddef>
#include <cstdint>

#include "tensor/backend.h"
#include "tensor/qkv_shape.h"

// The arithmetic of CpuBackend as free functions over contiguous rows, T = float or double.
// Shape letters and semantics: tensor/backend.h. Reductions of the float instantiation accumulate
// in double. Sizes are validated by the caller; indices are validated here.

namespace verlcpp::cpu {

// --- convert.cpp
void convert(std::byte* dst, DType dst_dtype, const std::byte* src, DType src_dtype, int64_t n);

// --- matmul.cpp
/// c [m, n] = alpha op(a) op(b) + beta c, row-major with row strides lda, ldb, ldc.
template <class T>
void gemm(bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k, T alpha, const T* a,
          int64_t lda, const T* b, int64_t ldb, T beta, T* c, int64_t ldc);
/// BLAS on the calling thread only: each rank is a thread already.
void use_single_threaded_blas();

// --- elementwise.cpp
template <class T>
void add(int64_t n, T* out, const T* a, const T* b);
template <class T>
double sum_squares(int64_t n, const T* x);

// --- embedding.cpp
template <class T>
void embedding(int64_t rows, int64_t vocab, int64_t width, T* out, const T* table,
               const int32_t* ids, int64_t first);
template <class T>
void embedding_backward(int64_t rows, int64_t vocab, int64_t width, T* d_table, const T* d_out,
                        const int32_t* ids, int64_t first);

// --- rows.cpp (any dtype)
void gather_rows(int64_t count, int64_t limit, size_t row_bytes, std::byte* out, const std::byte* x,
                 const int32_t* rows);
void scatter_rows(int64_t count, int64_t limit, size_t row_bytes, std::byte* out,
                  const std::byte* x, const int32_t* rows);
/// Row t of `part` is bytes [offset, offset + part_bytes) of row t of `joined`.
void join_columns(int64_t rows, size_t joined_bytes, size_t offset, size_t part_bytes,
                  std::byte* joined, const std::byte* part);

// --- rms_norm.cpp
template <class T>
void rms_norm(int64_t rows, int64_t width, T* y, T* rstd, const T* x, const T* w, double eps);
/// `d_residual` may be null.
template <class T>
void rms_norm_backward(int64_t rows, int64_t width, T* d_x, T* d_w, const T* d_y, const T* x,
                       const T* w, const T* rstd, const T* d_residual);

// --- rope.cpp
template <class T>
void rope_table(int64_t rows, int64_t head_dim, T* table, const int32_t* positions,
                const T* inv_freq);
template <class T>
void rope(int64_t rows, int64_t heads, int64_t head_dim, T* x, const T* table, bool inverse);

// --- qkv.cpp (`bias`, `d_bias` and `table` may be null)
template <class T>
void split_qkv(const QkvShape& shape, T* q, T* k, T* v, const T* qkv, const T* bias,
               const T* table);
template <class T>
void split_qkv_backward(const QkvShape& shape, T* d_qkv, T* d_bias, const T* d_q, const T* d_k,
                        const T* d_v, const T* table);

// --- swiglu.cpp
template <class T>
void swiglu(int64_t rows, int64_t ffn, T* out, const T* gate_up);
template <class T>
void swiglu_backward(int64_t rows, int64_t ffn, T* d_gate_up, const T* d_out, const T* gate_up);

// --- attention.cpp, attention_backward.cpp
template <class T>
struct AttentionInput {
  AttentionMask mask;
  double scale;
  int64_t q_rows, kv_rows, heads, kv_heads, head_dim;
  int64_t documents;
  const int32_t *q_offset, *q_length, *kv_offset, *kv_length;
  const T *q, *k, *v;
};
/// Rows of q whose scores are held at one time.
inline constexpr int64_t kAttentionTile = 64;
/// Number of leading kv rows of a document that its q row `i` sees.
int64_t visible_rows(AttentionMask mask, int64_t i, int64_t q_length, int64_t kv_length);
/// Softmax over the first `visible` of `width` scores, in place, zeros after them. Returns the
/// log-sum-exp, -inf when nothing is visible.
template <class T>
T softmax_row(T* scores, int64_t visible, int64_t width);
template <class T>
void attention_block(const AttentionInput<T>& in, T* o, T* lse);
/// d_q, d_k, d_v are added to.
template <class T>
void attention_block_backward(const AttentionInput<T>& in, const T* o, const T* lse, const T* d_o,
                              T* d_q, T* d_k, T* d_v);
/// `rows` counts (token, head) pairs.
template <class T>
void attention_merge(int64_t rows, int64_t head_dim, T* o, T* lse, const T* o_part,
                     const T* lse_part);

// --- decode.cpp
template <class T>
struct DecodeInput {
  double scale;
  int64_t sequences, heads, kv_heads, head_dim;
  int64_t block, blocks_per_sequence, cache_blocks;
  const int32_t *tables, *positions;
  const T *q, *k, *v;
  T *cache_k, *cache_v;
};
template <class T>
void decode_attention(const DecodeInput<T>& in, T* o);
void advance_sequences(int64_t sequences, int32_t* positions, int32_t* counters);

// --- log_prob.cpp
template <class T>
void logit_stats(int64_t rows, int64_t vocab, int64_t first, double* stats, const T* logits,
                 const int32_t* labels, const T* temperature);
/// Between logits and KeptLogits with a shift, whose values are T here.
template <class T>
void keep_logits(int64_t rows, int64_t vocab, T* values, T* shift, const T* logits,
                 const T* temperature);
template <class T>
void kept_to_logits(int64_t rows, int64_t vocab, T* logits, const T* values, const T* shift,
                    const T* temperature);
template <class T>
void token_log_prob(int64_t rows, int64_t parts, T* log_prob, T* entropy, T* lse,
                    const double* stats);
template <class T>
void token_log_prob_backward(int64_t rows, int64_t vocab, int64_t first, T* d_logits,
                             const T* logits, const int32_t* labels, const T* temperature,
                             const T* entropy, const T* lse, const T* d_log_prob,
                             const T* d_entropy);

// --- sample.cpp
template <class T>
void sample(int64_t rows, int64_t vocab, int32_t* ids, T* log_prob, const T* logits,
            const int32_t* counters, const SamplingOptions& options);

// --- adamw.cpp
template <class T>
void adamw(int64_t n, T* weight, const T* grad, T* exp_avg, T* exp_avg_sq,
           const AdamWOptions& options);

}  // namespace verlcpp::cpu
