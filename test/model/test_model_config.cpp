#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "model/model_config.h"
#include "model/parameters.h"
#include "support/catch.h"
#include "support/temporary_folder.h"

using namespace verlcpp;
using namespace verlcpp::model;
using Json = nlohmann::json;

namespace {

const std::string kReference = VERLCPP_REFERENCE;

/// A Llama configuration after a JSON merge patch (null removes a key).
std::string llama(const std::string& change) {
  Json json = Json::parse(R"({"architectures": ["LlamaForCausalLM"], "vocab_size": 50,
      "hidden_size": 24, "intermediate_size": 40, "num_hidden_layers": 3,
      "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 64,
      "hidden_act": "silu"})");
  json.merge_patch(Json::parse(change));
  return json.dump();
}

std::string refusal(const std::string& change) {
  try {
    parse_model_config(llama(change), "config.json");
  } catch (const DataError& error) {
    return error.what();
  }
  return "accepted";
}

ModelConfig accepted(const std::string& change) {
  return parse_model_config(llama(change), "config.json");
}

}  // namespace

TEST_CASE("the folders that transformers writes") {
  SECTION("Qwen2: biases, tied") {
    const ModelConfig c = read_model_config(kReference + "/qwen2");
    CHECK(c.architecture == "Qwen2ForCausalLM");
    CHECK(c.vocab == 100);
    CHECK(c.hidden == 32);
    CHECK(c.ffn == 29);
    CHECK(c.layers == 2);
    CHECK(c.heads == 4);
    CHECK(c.kv_heads == 2);
    CHECK(c.head_dim == 8);
    CHECK(c.rms_norm_eps == 1e-6);
    CHECK(c.rope.theta == 1e6);
    CHECK(c.qkv_bias);
    CHECK_FALSE(c.qk_norm);
    CHECK(c.tied_embeddings);
    CHECK(c.max_positions == 512);
    CHECK(c.eos_token_ids == std::vector<int32_t>{0});
    CHECK(c.bos_token_id == -1);
    CHECK(c.pad_token_id == 0);
  }
  SECTION("Qwen3: QK norm, its own head_dim, untied") {
    const ModelConfig c = read_model_config(kReference + "/qwen3");
    CHECK(c.head_dim == 10);
    CHECK(c.rope.theta == 1e4);
    CHECK_FALSE(c.qkv_bias);
    CHECK(c.qk_norm);
    CHECK_FALSE(c.tied_embeddings);
  }
  SECTION("Llama: one kv head, two ends of sequence") {
    const ModelConfig c = read_model_config(kReference + "/llama");
    CHECK(c.kv_heads == 1);
    CHECK(c.rms_norm_eps == 1e-5);
    CHECK(c.rope.theta == 5e5);
    CHECK_FALSE(c.qkv_bias);
    CHECK_FALSE(c.qk_norm);
    CHECK(c.eos_token_ids == std::vector<int32_t>{0, 98});
  }
}

TEST_CASE("generation_config.json says what ends a response, or else config.json") {
  using Ids = std::vector<int32_t>;
  const test::TemporaryFolder folder;
  folder.write("config.json", llama(R"({"eos_token_id": [7, 1, 7]})"));
  const auto ends = [&] { return read_model_config(folder.path()).eos_token_ids; };
  CHECK(ends() == Ids{7, 1});
  for (const char* silent : {"{}", R"({"eos_token_id": null})", R"({"eos_token_id": []})"}) {
    folder.write("generation_config.json", silent);
    CHECK(ends() == Ids{7, 1});
  }
  folder.write("generation_config.json", R"({"eos_token_id": 3})");
  CHECK(ends() == Ids{3});
  folder.write("generation_config.json", R"({"eos_token_id": [4, 5, 4]})");
  CHECK(ends() == Ids{4, 5});
  folder.write("config.json", llama("{}"));
  CHECK(ends() == Ids{4, 5});
  folder.write("generation_config.json", R"({"eos_token_id": [4, 50]})");
  CHECK_THROWS_WITH(ends(), folder.path() +
                                "/generation_config.json: eos_token_id: [4,50]; valid: a token id "
                                "from 0 to 49, or a list of them");
}

TEST_CASE("what transformers writes of scaled rotary angles and of a window") {
  CHECK(read_model_config(kReference + "/mistral").sliding_window == 64);
  CHECK(read_model_config(kReference + "/mistral").head_dim == 12);
  CHECK(read_model_config(kReference + "/llama3").rope.type == Rotary::Type::kLlama3);
  CHECK(read_model_config(kReference + "/linear").rope.factor == 4);
  const Rotary yarn = read_model_config(kReference + "/yarn").rope;
  CHECK(yarn.type == Rotary::Type::kYarn);
  CHECK(yarn.original_context == 32);
  CHECK(yarn.attention_factor == Approx(1.2772588722239782));
}

TEST_CASE("parameter_count is what the layout holds") {
  for (const std::string name : {"qwen2", "qwen3", "llama", "mistral", "linear"}) {
    const ModelConfig config = read_model_config(kReference + "/" + name);
    const ParameterLayout layout(config, 1);
    int64_t count = 0;
    for (const ParamSpec& spec : layout.specs()) count += numel_of(spec.shape);
    INFO(name);
    CHECK(config.parameter_count() == count);
  }
}

TEST_CASE("absent keys take transformers' defaults") {
  const ModelConfig c = accepted("{}");
  CHECK(c.head_dim == 6);
  CHECK(c.rms_norm_eps == 1e-6);
  CHECK(c.rope.theta == 1e4);
  CHECK_FALSE(c.tied_embeddings);
  CHECK(c.eos_token_ids.empty());
  CHECK(c.json == llama("{}"));
  CHECK(accepted(R"({"num_key_value_heads": null})").kv_heads == 4);
  CHECK(accepted(R"({"architectures": ["Qwen3ForCausalLM"]})").head_dim == 128);
  CHECK(accepted(R"({"architectures": ["Qwen2ForCausalLM"]})").qkv_bias);
}

TEST_CASE("rope_theta in both places") {
  CHECK(accepted(R"({"rope_theta": 5000})").rope.theta == 5000);
  CHECK(
      accepted(R"({"rope_parameters": {"rope_type": "default", "rope_theta": 6000}})").rope.theta ==
      6000);
  CHECK(accepted(R"({"rope_theta": 5000, "rope_scaling": {"type": "default"}})").rope.theta ==
        5000);
  CHECK(refusal(R"({"rope_parameters": {"type": "longrope"}})") ==
        "config.json: rope_parameters: type: \"longrope\"; valid: default, linear, llama3, yarn "
        "(other rotary scaling is not supported)");
  CHECK(refusal(R"({"rope_theta": -1})") ==
        "config.json: rope_theta: -1; valid: a positive number");
}

TEST_CASE("rotary scaling by each of its names") {
  CHECK(accepted("{}").rope.type == Rotary::Type::kDefault);
  const Rotary linear =
      accepted(R"({"rope_theta": 5e5, "rope_scaling": {"type": "linear", "factor": 4.0}})").rope;
  CHECK(linear.type == Rotary::Type::kLinear);
  CHECK(linear.factor == 4);
  CHECK(linear.theta == 5e5);
  const Rotary llama3 = accepted(R"({"rope_scaling": {"rope_type": "llama3", "factor": 8.0,
      "low_freq_factor": 1.0, "high_freq_factor": 4.0,
      "original_max_position_embeddings": 8192}})")
                            .rope;
  CHECK(llama3.type == Rotary::Type::kLlama3);
  CHECK(llama3.original_context == 8192);
  CHECK(llama3.attention_factor == 1);
  const Rotary yarn = accepted(R"({"rope_parameters": {"rope_type": "yarn", "factor": 4.0,
      "original_max_position_embeddings": 32, "beta_fast": 16}})")
                          .rope;
  CHECK(yarn.original_context == 32);
  CHECK(yarn.beta_fast == 16);
  CHECK(yarn.beta_slow == 1);
  CHECK(yarn.attention_factor == Approx(1.1386294361119891));
  CHECK(accepted(R"({"rope_scaling": {"type": "yarn", "factor": 2}})").rope.original_context == 64);
  CHECK(accepted(R"({"rope_scaling": {"type": "yarn", "original_max_position_embeddings": 16}})")
            .rope.factor == 4);
  CHECK(accepted(R"({"rope_scaling": {"type": "yarn", "factor": 2, "attention_factor": 1.5}})")
            .rope.attention_factor == 1.5);
  CHECK(accepted(R"({"rope_scaling": {"type": "yarn", "factor": 40, "mscale": 0.7,
      "mscale_all_dim": 1.4}})")
            .rope.attention_factor == Approx(1.2582215482 / 1.5164430964));
}

TEST_CASE("rotary scaling that lacks something or makes no sense is refused") {
  const auto refused = [](const std::string& rope) {
    return refusal("{\"rope_scaling\": " + rope + "}");
  };
  CHECK(refused(R"({"type": "linear"})") ==
        "config.json: rope_scaling: factor is missing; valid: a positive number");
  CHECK(refused(R"({"type": "linear", "factor": 0.5})") ==
        "config.json: rope_scaling: factor: 0.5; valid: a number of at least 1");
  CHECK(refused(R"({"type": "llama3", "factor": 8})") ==
        "config.json: rope_scaling: original_max_position_embeddings is missing; valid: a positive "
        "number");
  CHECK(refused(R"({"type": "llama3", "factor": 8, "original_max_position_embeddings": 8,
                    "low_freq_factor": 4, "high_freq_factor": 4})") ==
        "config.json: rope_scaling: high_freq_factor: 4; valid: a number above low_freq_factor");
  CHECK(refused(R"({"type": "yarn", "factor": 8, "truncate": 1})") ==
        "config.json: rope_scaling: truncate: 1; valid: true or false");
}

TEST_CASE("rotary blocks under both names, and a context beside them, as transformers takes them") {
  const std::string newer = R"("rope_parameters": {"rope_type": "default", "rope_theta": 5.0})";
  const Rotary both =
      accepted("{" + newer +
               R"(, "rope_scaling": {"type": "linear", "factor": 2}, "rope_theta": 7})")
          .rope;
  CHECK(both.type == Rotary::Type::kLinear);
  CHECK(both.factor == 2);
  CHECK(both.theta == 7);
  for (const char* nothing : {"null", "{}"}) {
    const Rotary one = accepted("{" + newer + ", \"rope_scaling\": " + nothing + "}").rope;
    CHECK(one.type == Rotary::Type::kDefault);
    CHECK(one.theta == 5);
  }
  const std::string yarn = R"("rope_scaling": {"type": "yarn", "factor": 4,
                              "original_max_position_embeddings": 16})";
  CHECK(accepted("{" + yarn + "}").rope.original_context == 16);
  CHECK(
      accepted("{" + yarn + R"(, "original_max_position_embeddings": 8})").rope.original_context ==
      8);
}

TEST_CASE("changes of a config are merged in first, and a null is one") {
  test::TemporaryFolder folder;
  folder.write("config.json", llama(R"({"attention_dropout": 0.1, "sliding_window": 8,
                                        "architectures": ["MistralForCausalLM"], "a": {"b": 1}})"));
  folder.write("generation_config.json", R"({"eos_token_id": 3})");
  const auto read = [&](const std::string& changes) {
    return read_model_config(folder.path(), {.json = changes, .where = "the key"});
  };
  const std::string path = folder.path() + "/config.json";
  CHECK_THROWS_WITH(read("{}"), path + ": attention_dropout: 0.1; valid: 0.0");
  const ModelConfig c =
      read(R"({"attention_dropout": 0.0, "sliding_window": null, "a": {"c": 2}})");
  CHECK(c.sliding_window == 0);
  using Ids = std::vector<int32_t>;
  CHECK(c.eos_token_ids == Ids{3});
  const Json json = Json::parse(c.json);
  CHECK(json["sliding_window"].is_null());
  CHECK(json["a"] == Json::parse(R"({"b": 1, "c": 2})"));
  CHECK(read(R"({"attention_dropout": 0.0, "eos_token_id": [4]})").eos_token_ids == Ids{4});
  CHECK_THROWS_WITH(read(R"({"attention_dropout": 0.5})"),
                    path + " with the key: attention_dropout: 0.5; valid: 0.0");
}

TEST_CASE("the names that a model's configuration is asked for") {
  const auto read = [](const std::string& change) {
    std::set<std::string> names;
    parse_model_config(llama(change), "config.json", &names);
    return names;
  };
  const std::set<std::string> plain = read("{}");
  for (const char* name : {"architectures", "vocab_size", "rope_theta", "eos_token_id"}) {
    CHECK(plain.count(name) == 1);
  }
  CHECK(plain.count("sliding_window") == 0);  // Mistral's
  const std::set<std::string> linear =
      read(R"({"rope_scaling": {"rope_type": "linear", "factor": 2.0, "beta_fast": 3}})");
  CHECK(linear.count("rope_scaling.factor") == 1);
  CHECK(linear.count("rope_scaling.beta_fast") == 0);  // yarn's
}

TEST_CASE("Mistral's sliding window: absent, null and named") {
  const auto mistral = [](const std::string& change) {
    Json json = Json::parse(llama(R"({"architectures": ["MistralForCausalLM"]})"));
    json.update(Json::parse(change));
    return parse_model_config(json.dump(), "config.json");
  };
  CHECK(mistral("{}").sliding_window == 4096);
  CHECK(mistral(R"({"sliding_window": null})").sliding_window == 0);
  CHECK(mistral(R"({"sliding_window": 100})").sliding_window == 100);
  CHECK_THROWS_WITH(mistral(R"({"sliding_window": 0})"),
                    "config.json: sliding_window: 0; valid: a positive integer");
  CHECK(accepted(R"({"sliding_window": 100})").sliding_window == 0);
}

TEST_CASE("what the transformer does not compute is refused by name") {
  const std::string architectures =
      "; valid: a list of one of Qwen2ForCausalLM, Qwen3ForCausalLM, LlamaForCausalLM, "
      "MistralForCausalLM";
  CHECK(refusal("{}") == "accepted");
  CHECK(refusal(R"({"architectures": ["MixtralForCausalLM"]})") ==
        "config.json: architectures: [\"MixtralForCausalLM\"]" + architectures);
  CHECK(refusal(R"({"architectures": null})") ==
        "config.json: architectures is missing" + architectures);
  CHECK(refusal(R"({"hidden_act": "gelu"})") ==
        "config.json: hidden_act: \"gelu\"; valid: \"silu\"");
  CHECK(refusal(R"({"use_sliding_window": true})") ==
        "config.json: use_sliding_window: true; valid: false");
  CHECK(refusal(R"({"layer_types": ["full_attention", "sliding_attention"]})") ==
        "config.json: layer_types: [\"full_attention\",\"sliding_attention\"]; valid: "
        "full_attention for every layer");
  CHECK(refusal(R"({"attention_bias": true})") ==
        "config.json: attention_bias: true; valid: false (a bias on o_proj is not supported)");
  CHECK(refusal(R"({"attention_dropout": 0.1})") ==
        "config.json: attention_dropout: 0.1; valid: 0.0");
  CHECK(refusal(R"({"quantization_config": {"bits": 4}})") ==
        "config.json: quantization_config: {\"bits\":4}; valid: null (quantized weights are not "
        "supported)");
}

TEST_CASE("missing and wrong values name file, key, value and what is valid") {
  const auto missing = [](const std::string& key) { return refusal("{\"" + key + "\": null}"); };
  for (const std::string key :
       {"vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers",
        "num_attention_heads", "max_position_embeddings"}) {
    const std::string limit = key == "num_hidden_layers" ? " of at most 65536" : "";
    CHECK(missing(key) == "config.json: " + key + " is missing; valid: a positive integer" + limit);
  }
  CHECK(refusal(R"({"hidden_size": 24.0})") ==
        "config.json: hidden_size: 24.0; valid: a positive integer");
  CHECK(refusal(R"({"vocab_size": 4294967296})") ==
        "config.json: vocab_size: 4294967296; valid: a positive integer");
  CHECK(refusal(R"({"num_key_value_heads": 3})") ==
        "config.json: num_key_value_heads: 3; valid: a divisor of num_attention_heads 4");
  CHECK(refusal(R"({"hidden_size": 25})") ==
        "config.json: hidden_size: 25; valid: a multiple of num_attention_heads 4 when head_dim is "
        "absent");
  CHECK(refusal(R"({"head_dim": 5})") ==
        "config.json: head_dim (or hidden_size / num_attention_heads): 5; valid: an even number");
  CHECK(refusal(R"({"tie_word_embeddings": "yes"})") ==
        "config.json: tie_word_embeddings: \"yes\"; valid: true or false");
  CHECK(refusal(R"({"eos_token_id": [1, 50]})") ==
        "config.json: eos_token_id: [1,50]; valid: a token id from 0 to 49, or a list of them");
  CHECK_THROWS_WITH(parse_model_config("[]", "c"), "c: not a JSON object");
  CHECK_THROWS_WITH(
      parse_model_config("{\"a\": }", "c"),
      "c: not JSON: line 1, column 7: syntax error while parsing value - unexpected '}'; "
      "expected '[', '{', or a literal");
  CHECK_THROWS_AS(read_model_config("/nowhere"), DataError);
}
