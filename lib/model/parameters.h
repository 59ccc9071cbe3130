#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "model/model_config.h"
#include "model/tp_shard.h"
#include "tensor/backend.h"

namespace verlcpp::model {

/// What a tensor is to the TP ranks. Its gradient on one rank is complete (kSharded, kReplicated)
/// or a part of a sum: over all TP ranks (kPartial: norms that see 1/size of the rows, q/k norms
/// that see 1/size of the heads) or over the neighbours that share kv heads (kKvReplicated).
enum class TpKind { kSharded, kReplicated, kPartial, kKvReplicated };

/// One piece of a fused tensor as Hugging Face stores it: rows [row, row + local[0]) of our tensor
/// are elements [first, first + local[shard_dim]) along axis `shard_dim` of the global one.
struct HfPiece {
  std::string hf_name;  // "model.layers.0.self_attn.q_proj.weight"
  Shape shape;          // global
  Shape local;          // this TP rank's
  int64_t row = 0;
  size_t shard_dim = 0;
  int64_t first = 0;
  TpKind kind = TpKind::kReplicated;
  bool owned = true;  // this TP rank counts it in norms and writes it; one rank does
};

/// Elements [first, first + count) of a flat buffer.
struct FlatRange {
  int64_t first = 0, count = 0;
  int64_t end() const { return first + count; }
};
FlatRange intersection(const FlatRange& a, const FlatRange& b);

/// One parameter tensor: where it lies in the flat buffer and what it is to Hugging Face. Fused
/// tensors (qkv_proj = q, k, v stacked; gate_up_proj = gate, up stacked) list several pieces.
struct ParamSpec {
  std::string name;    // "layers.0.qkv_proj.weight"
  Shape shape;         // of this TP rank
  int64_t offset = 0;  // elements; a multiple of 128: 256 bytes in every storage dtype
  bool decay = true;   // Megatron: no weight decay for biases and one-dimensional tensors
  std::vector<HfPiece> pieces;

  FlatRange range() const { return {offset, numel_of(shape)}; }
  FlatRange range_of(const HfPiece& piece) const;
};

/// Flat elements [flat, flat + count) are elements [global, global + count) of a Hugging Face
/// tensor.
struct Run {
  int64_t flat = 0, global = 0, count = 0;
};
/// The runs of a piece inside `within`, flat order.
std::vector<Run> runs_of(const ParamSpec& spec, const HfPiece& piece, const FlatRange& within);

/// All parameters of one TP rank's part of a model in one flat buffer: the matrices in the order in
/// which backward finishes their gradients (head first, last layer to first, embedding last), then
/// in the same order the vectors, which no weight decay applies to, so that an optimizer step is a
/// pass over two ranges. It is padded to a multiple of `pool * 128` elements, so that every rank of
/// the pool has an equal share of it. Between tensors and behind the last lie zeros.
/// Names are "lm_head.weight" (unless tied), "norm.weight", "embed_tokens.weight" and in
/// "layers.<i>.": {down,gate_up,o,qkv}_proj.weight, qkv_proj.bias, {q,k}_norm.weight,
/// {input,post_attention}_layernorm.weight. Biases and q/k norms only where the model has them.
class ParameterLayout {
 public:
  ParameterLayout(const ModelConfig& config, int64_t pool, const TpPlace& tp = {});
  const std::vector<ParamSpec>& specs() const { return specs_; }
  const ParamSpec& spec(const std::string& name) const;
  int64_t numel() const { return numel_; }  // of the flat buffer, padding included
  FlatRange whole() const { return {0, numel_}; }
  /// The tensors with weight decay and those without, each with the zeros behind them.
  FlatRange decayed() const { return {0, decayed_}; }
  FlatRange undecayed() const { return {decayed_, numel_ - decayed_}; }
  /// The part of rank `pool_rank`: what it owns of the optimizer (ZeRO-1) and writes of a
  /// checkpoint.
  FlatRange share(int64_t pool_rank) const;
  /// What this TP rank owns inside `within`, in few ranges: zeros between tensors may be among
  /// them.
  std::vector<FlatRange> owned(const FlatRange& within) const;
  int64_t kv_replicas() const { return kv_replicas_; }

 private:
  void append(ParamSpec spec);
  std::vector<ParamSpec> specs_;
  std::map<std::string, size_t> index_;
  int64_t numel_ = 0, decayed_ = 0, pool_ = 1, kv_replicas_ = 1;
};

/// A flat buffer over a layout, or over a range of it: weights, gradients or optimizer state. The
/// layout must outlive it.
class ParameterBuffer {
 public:
  /// Allocates and zeroes.
  ParameterBuffer(Backend& backend, const ParameterLayout& layout, DType dtype, MemoryTag tag);
  ParameterBuffer(Backend& backend, const ParameterLayout& layout, DType dtype, MemoryTag tag,
                  const FlatRange& range);
  const Tensor& flat() const { return flat_; }
  const FlatRange& range() const { return range_; }
  /// Elements of the layout that lie in the buffer's range.
  Tensor slice(const FlatRange& part) const;
  /// Needs the whole tensor in the range.
  Tensor at(const std::string& name) const;
  const ParameterLayout& layout() const { return *layout_; }

 private:
  const ParameterLayout* layout_;
  FlatRange range_;
  Tensor flat_;
};

/// Random weights as Hugging Face initialises them: normal(0, 0.02) for matrices and embeddings, 1
/// for norms, 0 for biases; a pure function of (seed, parameter, element), the same at any layout.
/// `beat`, if any, is called all the while: a sign of life.
void initialize(Backend& backend, const ParameterBuffer& weights, uint64_t seed,
                const std::function<void()>& beat = {});

}  // namespace verlcpp::model
