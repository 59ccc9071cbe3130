#include "model/model_config.h"

#include <algorithm>
#include <array>
#include <filesystem>

#include "base/error.h"
#include "data/text_file.h"
#include "model/config_fields.h"
#include "model/rotary_config.h"

namespace verlcpp::model {

namespace {

using Json = nlohmann::json;

constexpr std::array kArchitectures{"Qwen2ForCausalLM", "Qwen3ForCausalLM", "LlamaForCausalLM",
                                    "MistralForCausalLM"};

std::string read_architecture(const Fields& fields) {
  std::string valid = "a list of one of ";
  for (const char* name : kArchitectures)
    valid += (name == kArchitectures[0] ? "" : ", ") + std::string(name);
  const Json* list = fields.find("architectures");
  if (!list || !list->is_array() || list->size() != 1 || !list->front().is_string()) {
    fields.fail("architectures", valid);
  }
  const auto name = list->front().get<std::string>();
  if (std::find(kArchitectures.begin(), kArchitectures.end(), name) == kArchitectures.end()) {
    fields.fail("architectures", valid);
  }
  return name;
}

/// What these model families allow and the transformer here does not compute.
void refuse_unsupported(const Fields& fields) {
  fields.only("hidden_act", "silu");
  fields.only("use_sliding_window", false);
  fields.only("attention_dropout", 0.0);
  fields.only("mlp_bias", false);
  fields.only("partial_rotary_factor", 1.0);
  if (fields.find("quantization_config")) {
    fields.fail("quantization_config", "null (quantized weights are not supported)");
  }
  const Json* layers = fields.find("layer_types");
  if (!layers) return;
  for (const Json& type : *layers) {
    if (type != "full_attention") fields.fail("layer_types", "full_attention for every layer");
  }
}

void read_attention(const Fields& fields, ModelConfig& config) {
  const bool qwen2 = config.architecture == "Qwen2ForCausalLM";
  const bool qwen3 = config.architecture == "Qwen3ForCausalLM";
  config.heads = fields.positive("num_attention_heads");
  if (config.architecture == "LlamaForCausalLM") {
    config.kv_heads = fields.positive("num_key_value_heads", config.heads);
  } else {
    config.kv_heads = fields.positive("num_key_value_heads");
  }
  if (config.heads % config.kv_heads != 0) {
    fields.fail("num_key_value_heads",
                "a divisor of num_attention_heads " + std::to_string(config.heads));
  }
  if (qwen3 && !fields.contains("head_dim")) {
    config.head_dim = 128;  // transformers' default for this architecture
  } else if (fields.find("head_dim") && !qwen2) {
    config.head_dim = fields.positive("head_dim");
  } else if (config.hidden % config.heads == 0) {
    config.head_dim = fields.positive("head_dim", config.hidden / config.heads);
  } else {
    fields.fail("hidden_size", "a multiple of num_attention_heads " + std::to_string(config.heads) +
                                   " when head_dim is absent");
  }
  if (config.head_dim % 2 != 0) {
    throw DataError(fields.where() + ": head_dim (or hidden_size / num_attention_heads): " +
                    std::to_string(config.head_dim) + "; valid: an even number");
  }
  config.qkv_bias = qwen2;
  config.qk_norm = qwen3;
  // In these two, attention_bias means a bias on o_proj as well.
  if (!qwen2) fields.only("attention_bias", false, " (a bias on o_proj is not supported)");
}

/// Others than Mistral may name a window too, which use_sliding_window (refused) would switch on.
int64_t read_sliding_window(const Fields& fields, const std::string& architecture) {
  if (architecture != "MistralForCausalLM") return 0;
  if (!fields.contains("sliding_window")) return 4096;  // transformers' default; null: none
  return fields.find("sliding_window") ? fields.positive("sliding_window") : 0;
}

void set_eos(ModelConfig& config, const std::vector<int32_t>& ids) {
  config.eos_token_ids.clear();
  for (const int32_t id : ids) config.add_eos(id);
}

int32_t first_or_none(const std::vector<int32_t>& ids) { return ids.empty() ? -1 : ids.front(); }

}  // namespace

void ModelConfig::add_eos(int32_t id) {
  const auto known = std::find(eos_token_ids.begin(), eos_token_ids.end(), id);
  if (known == eos_token_ids.end()) eos_token_ids.push_back(id);
}

int64_t ModelConfig::parameter_count() const {
  const int64_t qkv_rows = (heads + 2 * kv_heads) * head_dim;
  const int64_t attention = qkv_rows * hidden + (qkv_bias ? qkv_rows : 0) +
                            hidden * heads * head_dim + (qk_norm ? 2 * head_dim : 0);
  const int64_t layer = attention + 3 * hidden * ffn + 2 * hidden;
  return (tied_embeddings ? 1 : 2) * vocab * hidden + layers * layer + hidden;
}

namespace {

void merge(Json& config, const Json& changes) {
  for (const auto& [key, value] : changes.items()) {
    const bool deeper = value.is_object() && config.contains(key) && config[key].is_object();
    if (deeper) {
      merge(config[key], value);
    } else {
      config[key] = value;
    }
  }
}

}  // namespace

ModelConfig parse_model_config(const std::string& json, const std::string& where,
                               std::set<std::string>* read) {
  const Fields fields = parse_fields(json, where, read);
  ModelConfig config;
  config.json = json;
  config.architecture = read_architecture(fields);
  refuse_unsupported(fields);
  config.vocab = fields.positive("vocab_size");
  config.hidden = fields.positive("hidden_size");
  config.ffn = fields.positive("intermediate_size");
  config.layers =
      fields.positive_up_to(65536, "a positive integer of at most 65536", "num_hidden_layers");
  read_attention(fields, config);
  config.rms_norm_eps = fields.positive_number("rms_norm_eps", 1e-6);
  config.tied_embeddings = fields.boolean("tie_word_embeddings", false);
  config.max_positions = fields.positive("max_position_embeddings");
  config.rope = read_rotary(fields, config.max_positions);
  config.sliding_window = read_sliding_window(fields, config.architecture);
  set_eos(config, fields.token_ids("eos_token_id", config.vocab));
  config.bos_token_id = first_or_none(fields.token_ids("bos_token_id", config.vocab));
  config.pad_token_id = first_or_none(fields.token_ids("pad_token_id", config.vocab));
  return config;
}

std::string merged_config(const std::string& json, const ConfigOverride& changes) {
  const Json added = Json::parse(changes.json);
  Json config = Json::parse(json, nullptr, false);
  if (!config.is_object() || added.empty()) return json;
  merge(config, added);
  return config.dump(2);
}

ModelConfig read_model_config(const std::string& folder, const ConfigOverride& changes) {
  const std::string path = folder + "/config.json";
  if (!std::filesystem::exists(path)) {
    throw DataError(path + " does not exist; a model folder is one in Hugging Face's format");
  }
  const Json added = Json::parse(changes.json);
  ModelConfig config = parse_model_config(merged_config(data::read_text_file(path), changes),
                                          path + (added.empty() ? "" : " with " + changes.where));
  const std::string generation = folder + "/generation_config.json";
  if (std::filesystem::exists(generation) && !added.contains("eos_token_id")) {
    const Fields fields = parse_fields(data::read_text_file(generation), generation);
    const std::vector<int32_t> eos = fields.token_ids("eos_token_id", config.vocab);
    if (!eos.empty()) set_eos(config, eos);
  }
  return config;
}

}  // namespace verlcpp::model
