#include <cmath>
#include <numeric>
#include <set>

#include "cpu/cpu_backend.h"
#include "model/parameters.h"
#include "model/tiny_model.h"
#include "support/catch.h"

namespace verlcpp::test {
namespace {

std::vector<std::string> names(const model::ParameterLayout& layout) {
  std::vector<std::string> out;
  for (const model::ParamSpec& spec : layout.specs()) out.push_back(spec.name);
  return out;
}

// Initial values by Hugging Face name.
std::map<std::string, std::vector<double>> initial_values(const model::ModelConfig& config,
                                                          int64_t pool, DType dtype,
                                                          uint64_t seed) {
  cpu::CpuBackend backend;
  const model::ParameterLayout layout(config, pool);
  const model::ParameterBuffer weights(backend, layout, dtype, MemoryTag::kWeights);
  model::initialize(backend, weights, seed);
  std::map<std::string, std::vector<double>> values;
  for (const model::ParamSpec& spec : layout.specs()) {
    for (const model::HfPiece& piece : spec.pieces) {
      values[piece.hf_name] =
          download(backend, weights.at(spec.name).rows(piece.row, piece.shape[0]));
    }
  }
  return values;
}

}  // namespace

TEST_CASE("the flat buffer lies in the order in which backward finishes") {
  CHECK(names(model::ParameterLayout(tiny_config("llama"), 1)) ==
        std::vector<std::string>{
            "lm_head.weight", "norm.weight", "layers.1.down_proj.weight",
            "layers.1.gate_up_proj.weight", "layers.1.post_attention_layernorm.weight",
            "layers.1.o_proj.weight", "layers.1.qkv_proj.weight", "layers.1.input_layernorm.weight",
            "layers.0.down_proj.weight", "layers.0.gate_up_proj.weight",
            "layers.0.post_attention_layernorm.weight", "layers.0.o_proj.weight",
            "layers.0.qkv_proj.weight", "layers.0.input_layernorm.weight", "embed_tokens.weight"});
}

TEST_CASE("tensors are aligned, do not overlap, and the buffer is padded to the pool") {
  const std::string kind = GENERATE("qwen2", "qwen3", "llama");
  for (const int64_t pool : {1, 3, 8}) {
    CAPTURE(kind, pool);
    const model::ParameterLayout layout(tiny_config(kind), pool);
    int64_t end = 0;
    for (const model::ParamSpec& spec : layout.specs()) {
      CHECK(spec.offset % 128 == 0);
      CHECK(spec.offset >= end);
      CHECK(spec.offset < end + 128);
      CHECK(spec.decay == (spec.shape.size() == 2));
      end = spec.offset + numel_of(spec.shape);
    }
    CHECK(layout.numel() % (pool * 128) == 0);
    CHECK(layout.numel() >= end);
    CHECK(layout.numel() < end + pool * 128);
  }
}

TEST_CASE("pieces cover their tensor and carry Hugging Face's names") {
  const model::ParameterLayout layout(tiny_config("qwen2"), 1);
  std::set<std::string> seen;
  for (const model::ParamSpec& spec : layout.specs()) {
    int64_t row = 0;
    for (const model::HfPiece& piece : spec.pieces) {
      CHECK(piece.row == row);
      CHECK(seen.insert(piece.hf_name).second);
      row += piece.shape[0];
    }
    CHECK(row == spec.shape[0]);
  }
  CHECK(seen.count("lm_head.weight") == 0);
  CHECK(seen.count("model.layers.1.self_attn.v_proj.bias") == 1);
  CHECK(seen.count("model.embed_tokens.weight") == 1);
  CHECK(seen.count("model.norm.weight") == 1);
  // Heads 4, kv heads 2, head dim 6, hidden 10, ffn 14.
  const model::ParamSpec& qkv = layout.spec("layers.0.qkv_proj.weight");
  CHECK(qkv.shape == Shape{48, 10});
  REQUIRE(qkv.pieces.size() == 3);
  CHECK(qkv.pieces[1].hf_name == "model.layers.0.self_attn.k_proj.weight");
  CHECK(qkv.pieces[1].shape == Shape{12, 10});
  CHECK(qkv.pieces[1].row == 24);
  const model::ParamSpec& gate_up = layout.spec("layers.0.gate_up_proj.weight");
  CHECK(gate_up.shape == Shape{28, 10});
  CHECK(gate_up.pieces[1].hf_name == "model.layers.0.mlp.up_proj.weight");
  CHECK(gate_up.pieces[1].row == 14);
  CHECK(layout.spec("layers.0.qkv_proj.bias").shape == Shape{48});
  CHECK_THROWS_AS(layout.spec("layers.2.qkv_proj.weight"), std::logic_error);

  const model::ParameterLayout qwen3(tiny_config("qwen3"), 1);
  CHECK(qwen3.spec("layers.1.q_norm.weight").pieces[0].hf_name ==
        "model.layers.1.self_attn.q_norm.weight");
  CHECK(qwen3.spec("layers.1.k_norm.weight").shape == Shape{6});
  CHECK_THROWS_AS(qwen3.spec("layers.0.qkv_proj.bias"), std::logic_error);
}

TEST_CASE("initial weights are normal(0, 0.02), norms one, biases zero") {
  model::ModelConfig config = tiny_config("qwen2");
  config.vocab = 5003;
  const auto values = initial_values(config, 1, DType::kFloat64, 7);
  const std::vector<double>& table = values.at("model.embed_tokens.weight");
  const double n = static_cast<double>(table.size());
  const double mean = std::accumulate(table.begin(), table.end(), 0.0) / n;
  const double squares = std::inner_product(table.begin(), table.end(), table.begin(), 0.0) / n;
  CHECK(std::abs(mean) < 5 * 0.02 / std::sqrt(n));
  CHECK(std::sqrt(squares) == Approx(0.02).epsilon(0.02));
  CHECK(values.at("model.norm.weight") == std::vector<double>(10, 1.0));
  CHECK(values.at("model.layers.0.self_attn.q_proj.bias") == std::vector<double>(24, 0.0));
}

TEST_CASE("initial weights are a function of seed, name and element alone") {
  const model::ModelConfig config = tiny_config("llama");
  const auto values = initial_values(config, 1, DType::kFloat64, 7);
  CHECK(initial_values(config, 6, DType::kFloat64, 7) == values);

  // Another place in the buffer, another row in the fused tensor, another depth, untied or not.
  model::ModelConfig other = tiny_config("qwen3");
  other.heads = 2;
  other.layers = 5;
  const auto moved = initial_values(other, 2, DType::kFloat64, 7);
  for (const std::string name :
       {"model.layers.1.self_attn.k_proj.weight", "model.layers.0.mlp.up_proj.weight",
        "model.embed_tokens.weight"}) {
    CHECK(moved.at(name) == values.at(name));
  }

  const auto single = initial_values(config, 1, DType::kFloat32, 7);
  for (const auto& [name, wanted] : values) {
    std::vector<double> rounded;
    for (const double w : wanted) rounded.push_back(static_cast<float>(w));
    CHECK(single.at(name) == rounded);
  }

  const auto reseeded = initial_values(config, 1, DType::kFloat64, 8);
  CHECK(reseeded.at("lm_head.weight") != values.at("lm_head.weight"));
  CHECK(values.at("model.layers.0.mlp.up_proj.weight") !=
        values.at("model.layers.0.mlp.gate_proj.weight"));
}

}  // namespace verlcpp::test
