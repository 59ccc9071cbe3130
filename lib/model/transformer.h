#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "data/packed_batch.h"
#include "model/context_parallel_attention.h"
#include "model/model_config.h"
#include "model/parameters.h"
#include "model/tensor_parallel.h"
#include "tensor/backend.h"

// Shape letters: see tensor/backend.h; heads, ffn columns and vocabulary are this TP rank's part
// (N, K, F, V), t = T, or T / TP with sequence parallelism.

namespace verlcpp::model {

/// A micro-batch on the device, ready for the transformer.
struct DeviceBatch {
  int64_t rows = 0;  // T
  Tensor token_ids_T, rope_TH;
  AttentionPlan attention;  // spans per ring step for this rank's CP group
  /// Head rows: local rows whose log-prob is wanted (R), their labels and temperatures.
  std::vector<int32_t> head_rows_host;
  Tensor head_rows_R, labels_R, temperature_R;
};

/// One layer's parameters, or their gradients. Optional ones are undefined in models without them.
struct LayerTensors {
  Tensor input_norm_D, qkv_XD, qkv_bias_X, q_norm_H, k_norm_H, o_DX;
  Tensor post_norm_D, gate_up_2FD, down_DF;
};

/// Activations of one layer and micro-batch that backward reads, and frees once it is done with
/// them.
struct LayerSaved {
  Tensor input_tD, norm1_tD, rstd1_t;
  Tensor q_pre_TNH, k_pre_TKH, q_rstd, k_rstd;  // before QK norm; only with qk_norm
  Tensor q_TNH, k_TKH, v_TKH, o_TNH, lse_TN;
  Tensor mid_tD, norm2_tD, rstd2_t, gate_up_T2F, act_TF;
};
/// The residual stream between two layers is base + delta, which the next norm adds up on its way;
/// without a delta it is base.
struct ResidualStream {
  Tensor base_tD, delta_tD;
};

/// What a layer keeps for backward; the rest is computed there again, to the same numbers.
/// Megatron's recompute_granularity: nothing is recomputed, core attention is, or all but the
/// layer's input.
enum class Recompute { kNone, kSelective, kFull };

/// What one micro-batch keeps between forward and backward.
struct Saved {
  std::vector<Recompute> policy;  // one a layer; empty keeps everything
  std::vector<LayerSaved> layers;
  Tensor final_input_RD, final_rstd_R, head_input_RD;
};

/// How a transformer computes, besides what its model and dtype say.
struct TransformerOptions {
  bool sequence_parallel = false;
  CpCommType cp_comm_type = CpCommType::kP2p;
  /// verl's use_fused_kernels (fused linear cross entropy): train() keeps no logits but those of
  /// two small chunks of rows.
  bool fused_head = false;
  /// Most bytes that such chunks take, or logits that pass by in memory: a twentieth of the float32
  /// logits of 16 384 tokens of a vocabulary of 151 936.
  int64_t head_chunk_bytes = int64_t{470} << 20;
};

/// How the head cuts its rows.
struct HeadChunks {
  /// Rows of logits that pass by in memory at a time.
  int64_t rows = 1;
  /// In train() with a fused head, which has two such chunks under way.
  int64_t fused_rows = 1;

  /// Rows of a chunk in train(), of which there are two at a time: of a fused head, or halves.
  int64_t of_pair(int64_t head_rows, bool fused) const;
};
/// What `bytes` hold: at least one row each, and multiples of 128 (tiles of a matrix product) where
/// there are that many.
HeadChunks head_chunks(int64_t vocab, DType dtype, int64_t bytes);

struct TokenOutputs {
  Tensor log_prob_R, entropy_R;
};

/// d loss / d log_prob and d loss / d entropy of some head rows, there once `ready` is waited for.
struct TokenGradients {
  Tensor log_prob_C, entropy_C;
  HostWork ready;
};
/// Enqueues a loss of each token on its own: from log-prob and entropy of head rows [first, first +
/// C) to their gradients.
using TokenLoss =
    std::function<TokenGradients(int64_t first, const Tensor& log_prob_C, const Tensor& entropy_C)>;

/// Positions in a block of the KV cache.
inline constexpr int64_t kKvBlock = 64;

/// KV cache for decoding, the same blocks in every layer. Which sequence holds which is the
/// caller's book: position j is row table[j / kKvBlock] * kKvBlock + j % kKvBlock.
struct KvCache {
  int64_t blocks = 0;
  std::vector<Tensor> k_CKH, v_CKH;  // per layer, C = blocks * kKvBlock rows
};

/// The decoder: written-out forward and backward as straight lists of op calls, no autograd.
/// Without mutable state: parameters and batch are passed in. Knows CP only through
/// ContextParallelAttention, TP through TensorParallel. Gradients accumulate into `grad`, on each
/// TP rank as TpKind says.
class Transformer {
 public:
  /// `tp` is null for one rank; its rank decides which part of the model the buffers hold.
  /// `status`, if any, gets a sign of life at every layer.
  Transformer(Backend& backend, const ModelConfig& config, DType dtype,
              parallel::Communicator* tp = nullptr, const TransformerOptions& options = {},
              parallel::RankStatus* status = nullptr);

  const ModelConfig& config() const { return config_; }
  const TpPlace& tp_place() const { return tp_.place(); }

  /// Uploads a packed batch. `head_rows` are the local rows whose log-prob is wanted (rising),
  /// `temperature` holds one value per packed row.
  DeviceBatch upload(const data::PackedBatch& batch, const parallel::CpGroup& group,
                     std::span<const int32_t> head_rows, std::span<const double> temperature) const;

  /// Makes attention ready, on the host alone, for forward or for backward of what `upload` would
  /// be given. Returns what Backend::prepare_attention counts.
  int64_t prepare_attention(const data::PackedBatch& batch, const parallel::CpGroup& group,
                            bool backward) const;

  /// Log-prob and entropy of the head rows; keeps no activations. A batch without rows is fine: the
  /// CP group still takes part in no traffic for it.
  TokenOutputs forward(const ParameterBuffer& weights, const DeviceBatch& batch,
                       const ContextParallelAttention& attention) const;
  /// Forward, the loss and its backward: grad += gradient of the loss, or, unless `add`, grad = it,
  /// whatever the parameters' places held before (the zeros between them stay), which saves filling
  /// and reading them. The head's forward and backward are one visit of each chunk of rows, of
  /// which a batch without head rows has none. `policy`: one a layer, empty keeps all activations.
  void train(const ParameterBuffer& weights, const DeviceBatch& batch,
             const ContextParallelAttention& attention, std::vector<Recompute> policy,
             const TokenLoss& loss, const ParameterBuffer& grad, bool add = true) const;
  /// Unscaled logits [R, V] of the batch's head rows over the whole vocabulary, of the dtype of
  /// statistics (tests, export checks).
  Tensor logits(const ParameterBuffer& weights, const DeviceBatch& batch,
                const ContextParallelAttention& attention) const;

  KvCache make_kv_cache(int64_t blocks) const;
  /// Writes K and V of whole prompts, laid end to end in `token_ids`, to cache rows `rows`, one a
  /// token.
  void prefill(const ParameterBuffer& weights, const KvCache& cache,
               std::span<const int32_t> token_ids, std::span<const int32_t> lengths,
               std::span<const int32_t> rows) const;
  /// K and V of cache rows `from` also in rows `to`.
  void copy_kv(const KvCache& cache, std::span<const int32_t> from,
               std::span<const int32_t> to) const;
  /// One new token of each sequence: writes its K and V, and returns its logits [B, V] (dtype of
  /// statistics) over the whole vocabulary, the same on all TP ranks. Ops and allocations alone, so
  /// that with one TP rank it can be the body of Backend::replay. `pages.block` is kKvBlock.
  Tensor decode(const ParameterBuffer& weights, const KvCache& cache, const Tensor& token_ids_B,
                const KvPages& pages) const;
  /// Throws unless all are tokens of the vocabulary.
  void check_ids(std::span<const int32_t> ids) const;

 private:
  Tensor empty(Shape shape, MemoryTag tag) const;        // in the compute dtype
  Tensor empty_stats(Shape shape, MemoryTag tag) const;  // in the dtype of statistics
  LayerTensors layer_tensors(const ParameterBuffer& buffer, int64_t layer) const;
  std::string head_name() const;
  /// Cosines and sines of rows at these positions (Backend::rope_table).
  Tensor rope_table(std::span<const int32_t> positions) const;

  // Forward, in order. `s` holds what came before and takes what is computed.
  Tensor run_layers(const ParameterBuffer& weights, const DeviceBatch& batch,
                    const ContextParallelAttention& attention, Saved* saved) const;
  void run_attention(const DeviceBatch& batch, const ContextParallelAttention& attention,
                     LayerSaved& s, MemoryTag tag) const;
  void start_layer(const LayerTensors& w, ResidualStream stream, LayerSaved& s,
                   MemoryTag tag) const;
  void project_qkv(const LayerTensors& w, const TensorParallel& tp, const Tensor& rope_TH,
                   LayerSaved& s, MemoryTag tag) const;
  void normalise_qk(const LayerTensors& w, const Tensor& rope_TH, LayerSaved& s,
                    MemoryTag tag) const;
  /// x w^T summed over TP ranks: all rows, or this rank's.
  Tensor row_parallel(const TensorParallel& tp, const Tensor& x_TF, const Tensor& w_DF,
                      MemoryTag tag) const;
  void run_mlp_up(const LayerTensors& w, const TensorParallel& tp, LayerSaved& s,
                  MemoryTag tag) const;
  ResidualStream finish_layer(const LayerTensors& w, const TensorParallel& tp, LayerSaved& s,
                              MemoryTag tag) const;
  Tensor hidden(const ResidualStream& stream) const;
  Tensor embed(const ParameterBuffer& weights, const TensorParallel& tp, const Tensor& token_ids_T,
               MemoryTag tag) const;
  void normalise_head(const ParameterBuffer& weights, const Tensor& hidden_TD, const Tensor& rows_R,
                      Saved& s, MemoryTag tag) const;
  TokenOutputs run_head(const ParameterBuffer& weights, const Tensor& hidden_TD,
                        const DeviceBatch& batch) const;
  Tensor head_logits(const ParameterBuffer& weights, const Tensor& hidden_TD,
                     const Tensor& rows_R) const;
  void write_kv(const KvCache& cache, int64_t layer, const LayerSaved& s,
                const Tensor& rows_T) const;
  Tensor decode_logits(const ParameterBuffer& weights, const Tensor& hidden_BD) const;
  Tensor whole_vocabulary(const Tensor& logits_RV) const;
  Tensor upload_ids(std::span<const int32_t> ids) const;
  void beat() const;

  /// Computes again what the layer's policy dropped.
  void restore(const LayerTensors& w, const DeviceBatch& batch,
               const ContextParallelAttention& attention, LayerSaved& s) const;

  // Their mirrors, in order. Each returns the gradient of its input.
  void layers_backward(const ParameterBuffer& weights, const DeviceBatch& batch,
                       const ContextParallelAttention& attention, Saved& s, Tensor d_hidden_tD,
                       const ParameterBuffer& grad, bool add) const;
  /// Zeroes the gradients that ops only add to.
  void clear_what_adds(const DeviceBatch& batch, const ParameterBuffer& grad) const;
  /// From the gradient of the head's input to that of the last layer's output.
  Tensor head_input_backward(const ParameterBuffer& weights, const DeviceBatch& batch,
                             const Saved& s, const Tensor& d_input_RD,
                             const ParameterBuffer& grad) const;
  /// Statistics of the logits of head rows [first, first + rows), [rows, 4].
  Tensor head_stats(const ParameterBuffer& weights, const DeviceBatch& batch, const Saved& s,
                    int64_t first, int64_t rows, const KeptLogits& kept) const;
  /// One chunk of the head between its forward and its backward.
  struct HeadChunk {
    int64_t first = 0;
    KeptLogits kept;
    Tensor lse_C = {}, entropy_C = {};
    TokenGradients d_loss = {};
  };
  HeadChunk start_chunk(const ParameterBuffer& weights, const DeviceBatch& batch, const Saved& s,
                        const TokenLoss& loss, int64_t first, const KeptLogits& kept) const;
  /// The gradient of its logits, in their place.
  void finish_chunk(const DeviceBatch& batch, HeadChunk& chunk) const;
  /// Forward and backward of the head in one visit; the gradient of its input.
  Tensor train_head(const ParameterBuffer& weights, const DeviceBatch& batch, const Saved& s,
                    const TokenLoss& loss, const ParameterBuffer& grad, bool add) const;
  Tensor mlp_backward(const LayerTensors& w, const LayerTensors& g, const LayerSaved& s,
                      const Tensor& d_hidden_tD, bool add) const;
  Tensor attention_backward(const LayerTensors& w, const LayerTensors& g, const LayerSaved& s,
                            const DeviceBatch& batch, const ContextParallelAttention& attention,
                            const Tensor& d_mid_tD, bool add) const;
  Tensor qkv_backward(const LayerTensors& w, const LayerTensors& g, const LayerSaved& s,
                      const Tensor& rope_TH, const Tensor& d_q_TNH, const Tensor& d_k_TKH,
                      const Tensor& d_v_TKH, const Tensor& d_mid_tD, bool add) const;

  Backend& backend_;
  ModelConfig config_;
  DType dtype_;
  TensorParallel tp_;
  TpShard shard_;
  CpCommType cp_comm_type_;
  bool fused_head_;
  HeadChunks head_chunks_;
  parallel::RankStatus* status_;
  double attention_scale_;
  Tensor inv_freq_;
};

}  // namespace verlcpp::model
