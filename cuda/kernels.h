#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "tensor/backend.h"
#include "tensor/qkv_shape.h"

// The border between the backend (.cpp) and the kernels (.cu). Pointers are device memory, sizes
// are arguments, every function launches on `stream` and returns. `dtype` is float32 or bfloat16;
// gradients of parameters and statistics are float32 (those of logits, and squares, float64).
// Kernels accumulate in float32 or wider and are deterministic. Semantics and shape letters:
// tensor/backend.h.

namespace verlcpp::cuda {

// --- convert.cu
void convert(cudaStream_t stream, int64_t n, void* out, DType out_dtype, const void* in,
             DType in_dtype);

// --- elementwise.cu
void add(cudaStream_t stream, DType dtype, int64_t n, void* out, const void* a, const void* b);
/// out[0] += sum of squares; `partial` holds kSumBlocks doubles.
inline constexpr int kSumBlocks = 1024;
void sum_squares(cudaStream_t stream, DType dtype, int64_t n, double* out, double* partial,
                 const void* x);

/// sum += x, of `dtype`.
void add_to(cudaStream_t stream, int64_t n, float* sum, DType dtype, const void* x);
void fill(cudaStream_t stream, int64_t n, float* x, float value);

// --- embedding.cu
void embedding(cudaStream_t stream, DType dtype, int64_t rows, int64_t vocab, int64_t width,
               int64_t first, void* out, const void* table, const int32_t* ids);
/// `workspace` holds embedding_workspace(rows) bytes, which grow linearly with the rows.
int64_t embedding_workspace(int64_t rows);
void embedding_backward(cudaStream_t stream, DType dtype, int64_t rows, int64_t vocab,
                        int64_t width, int64_t first, float* d_table, const void* d_out,
                        const int32_t* ids, std::byte* workspace);

// --- rows.cu (bytes; every size a multiple of 2)
void gather_rows(cudaStream_t stream, int64_t rows, int64_t row_bytes, void* out, const void* x,
                 const int32_t* index);
void scatter_rows(cudaStream_t stream, int64_t rows, int64_t row_bytes, void* out, const void* x,
                  const int32_t* index);
/// `out` may be pinned host memory. What is behind it starts sooner than behind a copy engine.
void copy_by_kernel(cudaStream_t stream, int64_t bytes, void* out, const void* x);
/// Copies `rows` pieces of `bytes` from pitch to pitch.
void copy_columns(cudaStream_t stream, int64_t rows, int64_t bytes, void* out, int64_t out_pitch,
                  const void* in, int64_t in_pitch);

/// Rows of the `parts` that a sum over rows leaves to be added up, each as wide as the sum: one a
/// block, of which every SM of an H200 gets up to four.
inline constexpr int64_t kSms = 132, kMostParts = 4 * kSms;

// --- rms_norm.cu
/// Of x; with `b` of x + b, which goes to `sum`. Both are null or neither is.
void rms_norm(cudaStream_t stream, DType dtype, int64_t rows, int64_t width, void* y, float* rstd,
              const void* x, const void* w, double eps, void* sum, const void* b);
/// `d_residual` may be null.
void rms_norm_backward(cudaStream_t stream, DType dtype, int64_t rows, int64_t width, void* d_x,
                       float* d_w, const void* d_y, const void* x, const void* w, const float* rstd,
                       const void* d_residual, float* parts);

// --- rope.cu
void rope_table(cudaStream_t stream, int64_t rows, int64_t head_dim, float* table,
                const int32_t* positions, const float* inv_freq);
void rope(cudaStream_t stream, DType dtype, int64_t rows, int64_t heads, int64_t head_dim, void* x,
          const float* table, bool inverse);

// --- qkv.cu (`bias`, `d_bias` and `table` may be null)
void split_qkv(cudaStream_t stream, DType dtype, const QkvShape& shape, void* q, void* k, void* v,
               const void* qkv, const void* bias, const float* table);
void split_qkv_backward(cudaStream_t stream, DType dtype, const QkvShape& shape, void* d_qkv,
                        float* d_bias, const void* d_q, const void* d_k, const void* d_v,
                        const float* table, float* parts);

// --- swiglu.cu
void swiglu(cudaStream_t stream, DType dtype, int64_t rows, int64_t ffn, void* out,
            const void* gate_up);
void swiglu_backward(cudaStream_t stream, DType dtype, int64_t rows, int64_t ffn, void* d_gate_up,
                     const void* d_out, const void* gate_up);

// --- gate_up.cu (bfloat16)
struct GateUpShape {
  int64_t rows = 0, ffn = 0, width = 0;
};
/// Whether there are rows enough, and operands and results lie as its copies need them.
bool multiplies_gate_up(const GateUpShape& shape, std::initializer_list<const void*> places);
/// Where multiplies_gate_up: x [rows, width], w [2 ffn, width], the gate's rows first, out [rows,
/// ffn], gate_up [rows, 2 ffn] or null.
void gate_up(cudaStream_t stream, const GateUpShape& shape, void* out, void* gate_up, const void* x,
             const void* w);

// --- attention.cu: the plain kernels, any head dim up to 256
struct AttentionArgs {
  AttentionMask mask;
  float scale;
  int64_t q_rows, kv_rows, heads, kv_heads, head_dim, documents;
  int64_t max_q_length, max_kv_length;
  const int32_t *q_offset, *q_length, *kv_offset, *kv_length;
  const void *q, *k, *v;
};
void attention_block(cudaStream_t stream, DType dtype, const AttentionArgs& args, void* o,
                     DType o_dtype, float* lse);
/// `delta` (a float for each row and head) is scratch. d_q, d_k, d_v are of `grad_dtype` and added
/// to.
void attention_block_backward(cudaStream_t stream, DType dtype, const AttentionArgs& args,
                              const void* o, const float* lse, const void* d_o, float* delta,
                              DType grad_dtype, void* d_q, void* d_k, void* d_v);
void attention_merge(cudaStream_t stream, int64_t rows, int64_t head_dim, float* o, float* lse,
                     const float* o_part, const float* lse_part);

// --- ragged.cu: documents for cuDNN (attention_cudnn.h)
/// Starts of documents in elements ([documents + 1]: of q, o and their gradients; of k, v and
/// theirs; of lse), and their lengths in rows.
struct RaggedArrays {
  int64_t *q_offset, *kv_offset, *lse_offset;
  int32_t *q_length, *kv_length;
};
/// Documents order[0], ..., order[documents - 1] of args (null: in their own order), then empty
/// ones up to `bucket`. A document that lacks q or kv rows is empty.
void fill_ragged(cudaStream_t stream, const AttentionArgs& args, int64_t documents, int64_t bucket,
                 const int32_t* order, const RaggedArrays& out);

// --- decode.cu
struct DecodeArgs {
  float scale;
  int64_t sequences, heads, kv_heads, head_dim, block, blocks_per_sequence;
  const int32_t *tables, *positions;
  const void *q, *k, *v;
  void *cache_k, *cache_v, *o;
};
/// Floats of scratch.
int64_t decode_attention_workspace(DType dtype, const DecodeArgs& args);
void decode_attention(cudaStream_t stream, DType dtype, const DecodeArgs& args, float* workspace);
void advance_sequences(cudaStream_t stream, int64_t sequences, int32_t* positions,
                       int32_t* counters);

// --- log_prob.cu, log_prob_backward.cu
void logit_stats(cudaStream_t stream, int64_t rows, int64_t vocab, int64_t first, double* stats,
                 const float* logits, const int32_t* labels, const float* temperature);
/// KeptLogits (float16 values) of logits.
void keep_logits(cudaStream_t stream, int64_t rows, int64_t vocab, void* values, float* shift,
                 const float* logits, const float* temperature);
void token_log_prob(cudaStream_t stream, int64_t rows, int64_t parts, float* log_prob,
                    float* entropy, float* lse, const double* stats);
/// What token_log_prob_backward says of rows: gradients and what they are formed from.
struct HeadGradient {
  int64_t rows = 0, vocab = 0, first = 0;
  const int32_t* labels;
  const float *temperature, *entropy, *lse, *d_log_prob, *d_entropy;
};
/// `dtype` is that of d_logits.
void token_log_prob_backward(cudaStream_t stream, DType dtype, const HeadGradient& head,
                             void* d_logits, const float* logits);
/// From KeptLogits with a shift; `dtype` as above.
void kept_log_prob_backward(cudaStream_t stream, DType dtype, const HeadGradient& head,
                            void* d_logits, const void* values, const float* shift);

// --- head_stats.cu (bfloat16)
struct HeadShape {
  int64_t rows = 0, vocab = 0, width = 0, first = 0;
};
/// Whether x [rows, width] and w [vocab, width] lie as its copies need them.
bool multiplies_head(const HeadShape& shape, const void* x, const void* w);
/// Parts of the vocabulary whose statistics are formed apart: [parts, rows, 4] doubles of scratch
/// where there are several.
int64_t head_parts(const HeadShape& shape);
/// `kept` and `shift` may be null, both.
void head_stats(cudaStream_t stream, const HeadShape& shape, double* stats, double* of_parts,
                void* kept, float* shift, const void* x, const void* w, const int32_t* labels,
                const float* temperature);

// --- sample.cu
/// Bytes of scratch.
int64_t sample_workspace(int64_t rows, int64_t vocab, const SamplingOptions& options);
void sample(cudaStream_t stream, int64_t rows, int64_t vocab, int32_t* ids, float* log_prob,
            const float* logits, const int32_t* counters, const SamplingOptions& options,
            std::byte* workspace);

// --- reduce.cu
enum class Reduction { kSum, kMax, kMin };
/// out[i] = reduction over `count` parts of n elements each, laid end to end; float64, float32,
/// bfloat16, int32 or int64. `out` may be the first part.
void reduce_parts(cudaStream_t stream, DType dtype, int64_t count, int64_t n, void* out,
                  const void* parts, Reduction op);

// --- adamw.cu
/// `weight` (dtype) becomes the rounded `master`; they may be one buffer of float32.
void adamw(cudaStream_t stream, DType dtype, int64_t n, void* weight, float* master,
           const float* grad, float* exp_avg, float* exp_avg_sq, const AdamWOptions& options);

}  // namespace verlcpp::cuda
