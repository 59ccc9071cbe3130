#include "model/model_config.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/error.h"
#include "data/json_reason.h"
#include "data/text_file.h"

namespace verlcpp::model {

namespace {

using Json = nlohmann::json;

constexpr const char* kArchitectures = "Qwen2ForCausalLM, Qwen3ForCausalLM, LlamaForCausalLM";

/// A JSON object whose values are asked for by key, type and range.
class Fields {
 public:
  Fields(Json object, std::string where) : object_(std::move(object)), where_(std::move(where)) {}

  [[noreturn]] void fail(const std::string& key, const std::string& valid) const {
    const Json* value = find(key);
    throw DataError(where_ + ": " + key + (value ? ": " + text_of(*value) : " is missing") +
                    "; valid: " + valid);
  }

  /// Null where the key is absent or null, which Hugging Face treats alike.
  const Json* find(const std::string& key) const {
    const auto found = object_.find(key);
    return found == object_.end() || found->is_null() ? nullptr : &*found;
  }
  bool contains(const std::string& key) const { return object_.contains(key); }

  int64_t positive(const std::string& key, std::optional<int64_t> absent = {}) const {
    return positive_up_to(std::numeric_limits<int32_t>::max(), "a positive integer", key, absent);
  }

  int64_t positive_up_to(int64_t max, const std::string& valid, const std::string& key,
                         std::optional<int64_t> absent = {}) const {
    const Json* value = find(key);
    if (!value && absent) return *absent;
    if (!value || !value->is_number_integer() || *value < 1 || *value > max) {
      fail(key, valid);
    }
    return value->get<int64_t>();
  }

  double positive_number(const std::string& key, double absent) const {
    const Json* value = find(key);
    if (!value) return absent;
    if (!value->is_number() || !(value->get<double>() > 0)) fail(key, "a positive number");
    return value->get<double>();
  }

  bool boolean(const std::string& key, bool absent) const {
    const Json* value = find(key);
    if (!value) return absent;
    if (!value->is_boolean()) fail(key, "true or false");
    return value->get<bool>();
  }

  /// Refuses any value but `valid`; absent is fine.
  void only(const std::string& key, const Json& valid, const std::string& why = "") const {
    const Json* value = find(key);
    if (value && *value != valid) fail(key, text_of(valid) + why);
  }

  /// One token id, or a list of them; empty when absent.
  std::vector<int32_t> token_ids(const std::string& key, int64_t vocab) const {
    const Json* value = find(key);
    if (!value) return {};
    std::vector<int32_t> out;
    for (const Json& id : value->is_array() ? *value : Json::array({*value})) {
      if (!id.is_number_integer() || id < 0 || id >= vocab) {
        fail(key, "a token id from 0 to " + std::to_string(vocab - 1) + ", or a list of them");
      }
      out.push_back(id.get<int32_t>());
    }
    return out;
  }

  const std::string& where() const { return where_; }

 private:
  static std::string text_of(const Json& value) {
    std::string text = value.dump();
    if (text.size() > 100) text = text.substr(0, 100) + "...";
    return text;
  }

  Json object_;
  std::string where_;
};

Fields parse_object(const std::string& text, const std::string& where) {
  try {
    Json json = Json::parse(text);
    if (!json.is_object()) throw DataError(where + ": not a JSON object");
    return {std::move(json), where};
  } catch (const Json::exception& error) {
    throw DataError(where + ": not JSON: " + data::json_reason(error.what(), false));
  }
}

std::string read_architecture(const Fields& fields) {
  const std::string valid = std::string("a list of one of ") + kArchitectures;
  const Json* list = fields.find("architectures");
  if (!list || !list->is_array() || list->size() != 1 || !list->front().is_string()) {
    fields.fail("architectures", valid);
  }
  const auto name = list->front().get<std::string>();
  if (name != "Qwen2ForCausalLM" && name != "Qwen3ForCausalLM" && name != "LlamaForCausalLM") {
    fields.fail("architectures", valid);
  }
  return name;
}

/// Older files: rope_theta and rope_scaling at the top; transformers 5: all in rope_parameters.
double read_rope_theta(const Fields& fields) {
  double theta = fields.positive_number("rope_theta", 10000);
  for (const std::string key : {"rope_scaling", "rope_parameters"}) {
    const Json* value = fields.find(key);
    if (!value) continue;
    if (!value->is_object()) fields.fail(key, "an object");
    const Fields rope(*value, fields.where() + ": " + key);
    // "type" is the name of rope_type in files of before 2024.
    rope.only("rope_type", "default", " (rotary scaling is not supported)");
    rope.only("type", "default", " (rotary scaling is not supported)");
    rope.only("partial_rotary_factor", 1.0);
    theta = rope.positive_number("rope_theta", theta);
  }
  return theta;
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
  if (qwen2 || qwen3) {
    config.kv_heads = fields.positive("num_key_value_heads");
  } else {
    config.kv_heads = fields.positive("num_key_value_heads", config.heads);
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

void add_eos(ModelConfig& config, const std::vector<int32_t>& ids) {
  for (const int32_t id : ids) {
    auto& known = config.eos_token_ids;
    if (std::find(known.begin(), known.end(), id) == known.end()) known.push_back(id);
  }
}

int32_t first_or_none(const std::vector<int32_t>& ids) { return ids.empty() ? -1 : ids.front(); }

}  // namespace

int64_t ModelConfig::parameter_count() const {
  const int64_t qkv_rows = (heads + 2 * kv_heads) * head_dim;
  const int64_t attention = qkv_rows * hidden + (qkv_bias ? qkv_rows : 0) +
                            hidden * heads * head_dim + (qk_norm ? 2 * head_dim : 0);
  const int64_t layer = attention + 3 * hidden * ffn + 2 * hidden;
  return (tied_embeddings ? 1 : 2) * vocab * hidden + layers * layer + hidden;
}

ModelConfig parse_model_config(const std::string& json, const std::string& where) {
  const Fields fields = parse_object(json, where);
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
  config.rope_theta = read_rope_theta(fields);
  config.tied_embeddings = fields.boolean("tie_word_embeddings", false);
  config.max_positions = fields.positive("max_position_embeddings");
  add_eos(config, fields.token_ids("eos_token_id", config.vocab));
  config.bos_token_id = first_or_none(fields.token_ids("bos_token_id", config.vocab));
  config.pad_token_id = first_or_none(fields.token_ids("pad_token_id", config.vocab));
  return config;
}

ModelConfig read_model_config(const std::string& folder) {
  const std::string path = folder + "/config.json";
  if (!std::filesystem::exists(path)) {
    throw DataError(path + " does not exist; a model folder is one in Hugging Face's format");
  }
  ModelConfig config = parse_model_config(data::read_text_file(path), path);
  const std::string generation = folder + "/generation_config.json";
  if (std::filesystem::exists(generation)) {
    const Fields fields = parse_object(data::read_text_file(generation), generation);
    add_eos(config, fields.token_ids("eos_token_id", config.vocab));
  }
  return config;
}

}  // namespace verlcpp::model
