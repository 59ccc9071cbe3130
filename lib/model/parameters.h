#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "model/model_config.h"
#include "tensor/backend.h"

namespace verlcpp::model {

/// One piece of a fused tensor as Hugging Face stores it: rows [row, row + shape[0]) of our tensor.
struct HfPiece {
  std::string hf_name;  // "model.layers.0.self_attn.q_proj.weight"
  Shape shape;          // global
  int64_t row = 0;
};

/// One parameter tensor: where it lies in the flat buffer and what it is to Hugging Face. Fused
/// tensors (qkv_proj = q, k, v stacked; gate_up_proj = gate, up stacked) list several pieces.
struct ParamSpec {
  std::string name;  // "layers.0.qkv_proj.weight"
  Shape shape;
  int64_t offset = 0;  // elements; a multiple of 128: 256 bytes in every storage dtype
  bool decay = true;   // Megatron: no weight decay for biases and one-dimensional tensors
  std::vector<HfPiece> pieces;
};

/// All parameters of a model in one flat buffer, in the order in which backward finishes their
/// gradients (head first, last layer to first, embedding last), padded to a multiple of
/// `pool * 128` elements. Names are "lm_head.weight" (unless tied), "norm.weight",
/// "embed_tokens.weight" and in "layers.<i>.": {down,gate_up,o,qkv}_proj.weight, qkv_proj.bias,
/// {q,k}_norm.weight, {input,post_attention}_layernorm.weight. Biases and q/k norms only where the
/// model has them.
class ParameterLayout {
 public:
  ParameterLayout(const ModelConfig& config, int64_t pool);
  const std::vector<ParamSpec>& specs() const { return specs_; }
  const ParamSpec& spec(const std::string& name) const;
  int64_t numel() const { return numel_; }  // of the flat buffer, padding included

 private:
  void append(ParamSpec spec);
  std::vector<ParamSpec> specs_;
  std::map<std::string, size_t> index_;
  int64_t numel_ = 0;
};

/// A flat buffer over a layout: weights, gradients or optimizer state. The layout must outlive it.
class ParameterBuffer {
 public:
  /// Allocates and zeroes.
  ParameterBuffer(Backend& backend, const ParameterLayout& layout, DType dtype, MemoryTag tag);
  const Tensor& flat() const { return flat_; }
  Tensor at(const std::string& name) const;
  const ParameterLayout& layout() const { return *layout_; }

 private:
  const ParameterLayout* layout_;
  Tensor flat_;
};

/// Random weights as Hugging Face initialises them: normal(0, 0.02) for matrices and embeddings, 1
/// for norms, 0 for biases; a pure function of (seed, parameter, element), the same at any layout.
void initialize(Backend& backend, const ParameterBuffer& weights, uint64_t seed);

}  // namespace verlcpp::model
