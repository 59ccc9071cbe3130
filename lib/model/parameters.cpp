#include "model/parameters.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/rng.h"

namespace verlcpp::model {
namespace {

// 256 bytes in the narrowest storage dtype (2 bytes), so a multiple of 256 bytes in every dtype.
constexpr int64_t kAlignment = 128;

// Hugging Face's default `initializer_range`.
constexpr double kInitializerRange = 0.02;

// Host memory of `initialize` at one time: 8 MiB of doubles.
constexpr int64_t kInitializeChunk = int64_t{1} << 20;

int64_t round_up(int64_t value, int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

// A tensor that Hugging Face stores as it is.
ParamSpec whole(std::string name, std::string hf_name, Shape shape) {
  ParamSpec spec;
  spec.name = std::move(name);
  spec.shape = shape;
  spec.pieces.push_back({std::move(hf_name), std::move(shape), 0});
  return spec;
}

// `pieces` stacked along the first axis; `columns` is 0 for vectors.
ParamSpec stacked(std::string name, const std::vector<std::pair<std::string, int64_t>>& pieces,
                  int64_t columns) {
  ParamSpec spec;
  spec.name = std::move(name);
  int64_t row = 0;
  for (const auto& [hf_name, rows] : pieces) {
    spec.pieces.push_back({hf_name, columns == 0 ? Shape{rows} : Shape{rows, columns}, row});
    row += rows;
  }
  spec.shape = columns == 0 ? Shape{row} : Shape{row, columns};
  return spec;
}

// One layer's tensors in the order in which its backward finishes them.
std::vector<ParamSpec> layer_specs(const ModelConfig& config, int64_t layer) {
  const std::string ours = "layers." + std::to_string(layer) + ".";
  const std::string hf = "model." + ours;
  const int64_t q_rows = config.heads * config.head_dim;
  const int64_t kv_rows = config.kv_heads * config.head_dim;
  const auto qkv = [&](const std::string& kind, int64_t columns) {
    return stacked(ours + "qkv_proj." + kind,
                   {{hf + "self_attn.q_proj." + kind, q_rows},
                    {hf + "self_attn.k_proj." + kind, kv_rows},
                    {hf + "self_attn.v_proj." + kind, kv_rows}},
                   columns);
  };
  std::vector<ParamSpec> specs;
  specs.push_back(
      whole(ours + "down_proj.weight", hf + "mlp.down_proj.weight", {config.hidden, config.ffn}));
  specs.push_back(
      stacked(ours + "gate_up_proj.weight",
              {{hf + "mlp.gate_proj.weight", config.ffn}, {hf + "mlp.up_proj.weight", config.ffn}},
              config.hidden));
  specs.push_back(whole(ours + "post_attention_layernorm.weight",
                        hf + "post_attention_layernorm.weight", {config.hidden}));
  specs.push_back(
      whole(ours + "o_proj.weight", hf + "self_attn.o_proj.weight", {config.hidden, q_rows}));
  if (config.qk_norm) {
    specs.push_back(
        whole(ours + "q_norm.weight", hf + "self_attn.q_norm.weight", {config.head_dim}));
    specs.push_back(
        whole(ours + "k_norm.weight", hf + "self_attn.k_norm.weight", {config.head_dim}));
  }
  if (config.qkv_bias) specs.push_back(qkv("bias", 0));
  specs.push_back(qkv("weight", config.hidden));
  specs.push_back(
      whole(ours + "input_layernorm.weight", hf + "input_layernorm.weight", {config.hidden}));
  return specs;
}

// FNV-1a, 64 bits (Fowler, Noll, Vo): a name's random stream.
uint64_t fnv1a(std::string_view text) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : text) {
    hash ^= static_cast<unsigned char>(c);
    hash *= 0x100000001b3u;
  }
  return hash;
}

void initialize_piece(Backend& backend, const Tensor& piece, const HfPiece& what, PhiloxKey key) {
  const uint64_t stream = fnv1a(what.hf_name);
  const bool is_matrix = what.shape.size() > 1;
  const double constant = what.hf_name.ends_with(".bias") ? 0.0 : 1.0;
  for (int64_t first = 0; first < piece.numel(); first += kInitializeChunk) {
    const int64_t count = std::min(kInitializeChunk, piece.numel() - first);
    std::vector<double> values(static_cast<size_t>(count), constant);
    if (is_matrix) {
      for (int64_t i = 0; i < count; ++i) {
        values[static_cast<size_t>(i)] =
            kInitializerRange * normal(key, stream, static_cast<uint64_t>(first + i));
      }
    }
    const Tensor chunk = upload_as(backend, piece.dtype(), values, {count}, MemoryTag::kWorkspace);
    backend.copy(piece.slice(first, {count}), chunk);
  }
}

}  // namespace

ParameterLayout::ParameterLayout(const ModelConfig& config, int64_t pool) {
  expects(pool >= 1, "a parameter layout needs a pool of at least one rank");
  if (!config.tied_embeddings) {
    append(whole("lm_head.weight", "lm_head.weight", {config.vocab, config.hidden}));
  }
  append(whole("norm.weight", "model.norm.weight", {config.hidden}));
  for (int64_t layer = config.layers - 1; layer >= 0; --layer) {
    for (ParamSpec& spec : layer_specs(config, layer)) append(std::move(spec));
  }
  append(whole("embed_tokens.weight", "model.embed_tokens.weight", {config.vocab, config.hidden}));
  numel_ = round_up(numel_, pool * kAlignment);
}

void ParameterLayout::append(ParamSpec spec) {
  spec.offset = round_up(numel_, kAlignment);
  spec.decay = spec.shape.size() > 1;
  numel_ = spec.offset + numel_of(spec.shape);
  expects(index_.emplace(spec.name, specs_.size()).second, "a parameter name appears twice");
  specs_.push_back(std::move(spec));
}

const ParamSpec& ParameterLayout::spec(const std::string& name) const {
  const auto found = index_.find(name);
  expects(found != index_.end(), "no parameter is named " + name);
  return specs_[found->second];
}

ParameterBuffer::ParameterBuffer(Backend& backend, const ParameterLayout& layout, DType dtype,
                                 MemoryTag tag)
    : layout_(&layout), flat_(backend.allocate(dtype, {layout.numel()}, tag)) {
  backend.fill_zero(flat_);
}

Tensor ParameterBuffer::at(const std::string& name) const {
  const ParamSpec& spec = layout_->spec(name);
  return flat_.slice(spec.offset, spec.shape);
}

void initialize(Backend& backend, const ParameterBuffer& weights, uint64_t seed) {
  const PhiloxKey key = rng_key(seed, RngPurpose::kWeightInit);
  for (const ParamSpec& spec : weights.layout().specs()) {
    const Tensor tensor = weights.at(spec.name);
    for (const HfPiece& piece : spec.pieces) {
      initialize_piece(backend, tensor.rows(piece.row, piece.shape[0]), piece, key);
    }
  }
}

}  // namespace verlcpp::model
