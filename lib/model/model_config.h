#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "model/rotary.h"

namespace verlcpp::model {

/// A decoder transformer of the Qwen2 / Qwen3 / Llama / Mistral kind, as its Hugging Face
/// config.json says.
struct ModelConfig {
  std::string architecture;  // Qwen2ForCausalLM, Qwen3ForCausalLM, LlamaForCausalLM (SmolLM2 too),
                             // MistralForCausalLM
  int64_t vocab = 0, hidden = 0, ffn = 0, layers = 0;
  int64_t heads = 0, kv_heads = 0, head_dim = 0;
  double rms_norm_eps = 1e-6;
  Rotary rope;
  bool qkv_bias = false;  // Qwen2
  bool qk_norm = false;   // Qwen3: RMSNorm over H on q and k before RoPE
  bool tied_embeddings = false;
  int64_t max_positions = 0;
  /// A position attends to so many, itself included; 0: to all before it. Not computed: sequences
  /// must be no longer.
  int64_t sliding_window = 0;
  /// What ends a response: generation_config.json's ids, or else config.json's.
  std::vector<int32_t> eos_token_ids;
  int32_t bos_token_id = -1, pad_token_id = -1;
  std::string json;  // the file's text, written back on export

  /// Adds an end-of-sequence id that is not there yet.
  void add_eos(int32_t id);
  /// Parameters of the model (tied ones once).
  int64_t parameter_count() const;
};

/// What is to change in config.json: a JSON object, and its name in messages.
struct ConfigOverride {
  std::string json = "{}", where;
};

/// Reads <folder>/config.json, and the end-of-sequence ids of generation_config.json where it names
/// some. Throws DataError naming file, key, value and what is valid. What the transformer does not
/// compute is refused by name: rotary scaling other than linear, llama3 and yarn, sliding windows
/// of some layers, dropout, quantized weights, `attention_bias` of Llama and Qwen3 (which biases
/// o_proj too).
/// `changes` is merged in first.
ModelConfig read_model_config(const std::string& folder, const ConfigOverride& changes = {});
/// `read`, if any, takes the names that this model's configuration was asked for, those in an
/// object as "rope_scaling.factor".
ModelConfig parse_model_config(const std::string& json, const std::string& where,
                               std::set<std::string>* read = nullptr);
/// config.json's `json` with `changes` merged in: objects key by key, else the new value stands in
/// place of the old one, null too. What is no JSON stays as it is.
std::string merged_config(const std::string& json, const ConfigOverride& changes);

}  // namespace verlcpp::model
