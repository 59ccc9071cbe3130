#include "model/transformer.h"

#include <cmath>
#include <utility>

#include "base/error.h"

namespace verlcpp::model {

Transformer::Transformer(Backend& backend, const ModelConfig& config, DType dtype,
                         parallel::Communicator* tp, const TransformerOptions& options,
                         parallel::RankStatus* status)
    : backend_(backend),
      config_(config),
      dtype_(dtype),
      tp_(backend, tp, options.sequence_parallel),
      shard_(tp_shard(config, tp_.place())),
      cp_comm_type_(options.cp_comm_type),
      fused_head_(options.fused_head),
      // Of the widest part, on all TP ranks alike: the head's chunks meet in a collective.
      head_chunks_(head_chunks((config.vocab + tp_.place().size - 1) / tp_.place().size, dtype,
                               options.head_chunk_bytes)),
      status_(status),
      // YaRN multiplies cosines and sines, so q and k alike: their product takes it twice.
      attention_scale_(config.rope.attention_factor * config.rope.attention_factor /
                       std::sqrt(static_cast<double>(config.head_dim))) {
  expects(config.kv_heads > 0 && config.heads % config.kv_heads == 0,
          "query heads must be a multiple of kv heads");
  expects(config.head_dim > 0 && config.head_dim % 2 == 0, "the head dim must be even");
  inv_freq_ =
      upload_as(backend, statistics_dtype(dtype), config.rope.inverse_frequencies(config.head_dim),
                {config.head_dim / 2}, MemoryTag::kWeights);
}

DeviceBatch Transformer::upload(const data::PackedBatch& batch, const parallel::CpGroup& group,
                                std::span<const int32_t> head_rows,
                                std::span<const double> temperature) const {
  const int64_t rows = batch.rows();
  expects(static_cast<int64_t>(temperature.size()) == rows, "one temperature per packed row");
  check_ids(batch.token_ids);
  check_ids(batch.labels);
  std::vector<int32_t> labels;
  std::vector<double> head_temperature;
  int32_t previous = -1;
  for (const int32_t row : head_rows) {
    expects(row > previous && row < rows, "head rows must rise and lie in the batch");
    previous = row;
    const auto r = static_cast<size_t>(row);
    expects(batch.document[r] >= 0, "a pad has no log-prob");
    labels.push_back(batch.labels[r]);
    head_temperature.push_back(temperature[r]);
  }
  const auto ids = [&](std::span<const int32_t> values) {
    return verlcpp::upload<int32_t>(backend_, values, {static_cast<int64_t>(values.size())},
                                    MemoryTag::kWorkspace);
  };
  return {
      .rows = rows,
      .token_ids_T = ids(batch.token_ids),
      .rope_TH = rope_table(batch.position),
      .attention = ContextParallelAttention(backend_, nullptr).plan(batch, group, cp_comm_type_),
      .head_rows_host = {head_rows.begin(), head_rows.end()},
      .head_rows_R = ids(head_rows),
      .labels_R = ids(labels),
      .temperature_R = upload_as(backend_, statistics_dtype(dtype_), head_temperature,
                                 {static_cast<int64_t>(head_rows.size())}, MemoryTag::kWorkspace)};
}

int64_t Transformer::prepare_attention(const data::PackedBatch& batch,
                                       const parallel::CpGroup& group, bool backward) const {
  int64_t built = 0;
  for (const HostBlock& block : attention_blocks(batch, group, cp_comm_type_)) {
    if (!block.computed) continue;
    built += backend_.prepare_attention({.mask = block.mask,
                                         .scale = attention_scale_,
                                         .dtype = dtype_,
                                         .q_rows = batch.rows(),
                                         .kv_rows = block.kv_rows,
                                         .heads = shard_.heads,
                                         .kv_heads = shard_.kv_heads,
                                         .head_dim = config_.head_dim,
                                         .q_lengths = block.spans.q_length,
                                         .kv_lengths = block.spans.kv_length,
                                         .backward = backward});
  }
  return built;
}

Tensor Transformer::empty(Shape shape, MemoryTag tag) const {
  return backend_.allocate(dtype_, std::move(shape), tag);
}

Tensor Transformer::empty_stats(Shape shape, MemoryTag tag) const {
  return backend_.allocate(statistics_dtype(dtype_), std::move(shape), tag);
}

LayerTensors Transformer::layer_tensors(const ParameterBuffer& buffer, int64_t layer) const {
  const std::string prefix = "layers." + std::to_string(layer) + ".";
  LayerTensors t{.input_norm_D = buffer.at(prefix + "input_layernorm.weight"),
                 .qkv_XD = buffer.at(prefix + "qkv_proj.weight"),
                 .qkv_bias_X = {},
                 .q_norm_H = {},
                 .k_norm_H = {},
                 .o_DX = buffer.at(prefix + "o_proj.weight"),
                 .post_norm_D = buffer.at(prefix + "post_attention_layernorm.weight"),
                 .gate_up_2FD = buffer.at(prefix + "gate_up_proj.weight"),
                 .down_DF = buffer.at(prefix + "down_proj.weight")};
  if (config_.qkv_bias) t.qkv_bias_X = buffer.at(prefix + "qkv_proj.bias");
  if (config_.qk_norm) {
    t.q_norm_H = buffer.at(prefix + "q_norm.weight");
    t.k_norm_H = buffer.at(prefix + "k_norm.weight");
  }
  return t;
}

Tensor Transformer::rope_table(std::span<const int32_t> positions) const {
  const auto rows = static_cast<int64_t>(positions.size());
  const Tensor table_TH = empty_stats({rows, config_.head_dim}, MemoryTag::kWorkspace);
  backend_.rope_table(table_TH,
                      verlcpp::upload<int32_t>(backend_, positions, {rows}, MemoryTag::kWorkspace),
                      inv_freq_);
  return table_TH;
}

void Transformer::check_ids(std::span<const int32_t> ids) const {
  for (const int32_t id : ids) {
    if (id < 0 || id >= config_.vocab) {
      expects(false, "token id " + std::to_string(id) + " outside of a vocabulary of " +
                         std::to_string(config_.vocab));
    }
  }
}

void Transformer::beat() const {
  if (status_ != nullptr) status_->beat();
}

std::string Transformer::head_name() const {
  return config_.tied_embeddings ? "embed_tokens.weight" : "lm_head.weight";
}

}  // namespace verlcpp::model
