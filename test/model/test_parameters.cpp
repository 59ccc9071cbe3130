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

TEST_CASE("the flat buffer lies in the order in which backward finishes, matrices first") {
  CHECK(names(model::ParameterLayout(tiny_config("llama"), 1)) ==
        std::vector<std::string>{
            "lm_head.weight", "layers.1.down_proj.weight", "layers.1.gate_up_proj.weight",
            "layers.1.o_proj.weight", "layers.1.qkv_proj.weight", "layers.0.down_proj.weight",
            "layers.0.gate_up_proj.weight", "layers.0.o_proj.weight", "layers.0.qkv_proj.weight",
            "embed_tokens.weight", "norm.weight", "layers.1.post_attention_layernorm.weight",
            "layers.1.input_layernorm.weight", "layers.0.post_attention_layernorm.weight",
            "layers.0.input_layernorm.weight"});
}

TEST_CASE("weight decay has one range of the flat buffer, and the rest is the other") {
  const std::string kind = GENERATE("qwen2", "qwen3", "llama");
  for (const int64_t pool : {1, 3, 8}) {
    CAPTURE(kind, pool);
    const model::ParameterLayout layout(tiny_config(kind), pool);
    const model::FlatRange decayed = layout.decayed(), undecayed = layout.undecayed();
    CHECK(decayed.first == 0);
    CHECK(decayed.count > 0);
    CHECK(undecayed.first == decayed.end());
    CHECK(undecayed.first % 128 == 0);
    CHECK(undecayed.end() == layout.numel());
    for (const model::ParamSpec& spec : layout.specs()) {
      INFO(spec.name);
      CHECK(intersection(spec.range(), spec.decay ? decayed : undecayed).count ==
            numel_of(spec.shape));
    }
  }
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

TEST_CASE("TP ranks hold every element of every tensor, and one of them owns it") {
  const std::string kind = GENERATE("qwen2", "qwen3", "llama");
  const int64_t tp = GENERATE(1, 2, 4);  // 4 ranks share 2 kv heads
  CAPTURE(kind, tp);
  model::ModelConfig config = tiny_config(kind);
  config.ffn = 16;
  std::map<std::string, std::vector<int>> owners;
  for (int64_t rank = 0; rank < tp; ++rank) {
    const model::ParameterLayout layout(config, 3, {.size = tp, .rank = rank});
    for (int64_t pool_rank = 0; pool_rank < 3; ++pool_rank) {
      for (const model::ParamSpec& spec : layout.specs()) {
        for (const model::HfPiece& piece : spec.pieces) {
          auto& count = owners[piece.hf_name];
          count.resize(static_cast<size_t>(numel_of(piece.shape)));
          if (!piece.owned) continue;
          for (const model::Run& run : runs_of(spec, piece, layout.share(pool_rank))) {
            for (int64_t i = 0; i < run.count; ++i) ++count.at(static_cast<size_t>(run.global + i));
          }
        }
      }
    }
  }
  for (const auto& [name, count] : owners) {
    INFO(name);
    CHECK(count == std::vector<int>(count.size(), 1));
  }
}

TEST_CASE("the owned ranges are the owned pieces and padding") {
  model::ModelConfig config = tiny_config("qwen2");
  config.ffn = 16;
  for (int64_t rank = 0; rank < 4; ++rank) {
    const model::ParameterLayout layout(config, 2, {.size = 4, .rank = rank});
    std::vector<int> wanted(static_cast<size_t>(layout.numel())), got = wanted;
    for (const model::ParamSpec& spec : layout.specs()) {
      for (const model::HfPiece& piece : spec.pieces) {
        const model::FlatRange range = spec.range_of(piece);
        for (int64_t i = range.first; i < range.end(); ++i) {
          wanted[static_cast<size_t>(i)] = piece.owned ? 1 : -1;
        }
      }
    }
    for (int64_t pool_rank = 0; pool_rank < 2; ++pool_rank) {
      for (const model::FlatRange& range : layout.owned(layout.share(pool_rank))) {
        for (int64_t i = range.first; i < range.end(); ++i) ++got[static_cast<size_t>(i)];
      }
    }
    for (size_t i = 0; i < wanted.size(); ++i) {
      if (wanted[i] != 0) CHECK(got[i] == (wanted[i] == 1 ? 1 : 0));
      CHECK(got[i] <= 1);
    }
  }
}

TEST_CASE("a part of a model starts from the whole model's initial values") {
  model::ModelConfig config = tiny_config("qwen2");
  config.ffn = 16;
  const auto whole = initial_values(config, 1, DType::kFloat64, 7);
  cpu::CpuBackend backend;
  for (int64_t rank = 0; rank < 4; ++rank) {
    const model::ParameterLayout layout(config, 1, {.size = 4, .rank = rank});
    const model::ParameterBuffer weights(backend, layout, DType::kFloat64, MemoryTag::kWeights);
    model::initialize(backend, weights, 7);
    const std::vector<double> flat = download(backend, weights.flat());
    for (const model::ParamSpec& spec : layout.specs()) {
      for (const model::HfPiece& piece : spec.pieces) {
        INFO(rank << " " << piece.hf_name);
        int64_t count = 0;
        for (const model::Run& run : runs_of(spec, piece, layout.whole())) {
          const auto ours = flat.begin() + run.flat;
          const auto theirs = whole.at(piece.hf_name).begin() + run.global;
          CHECK(std::equal(ours, ours + run.count, theirs));
          count += run.count;
        }
        CHECK(count == numel_of(piece.local));
      }
    }
  }
}

TEST_CASE("what a model cannot be cut into is said with what would be valid") {
  const model::ModelConfig config = tiny_config("qwen2");  // heads 4, kv heads 2, ffn 14, vocab 13
  CHECK(model::tp_complaint(config, 1).empty());
  CHECK(model::tp_complaint(config, 2).empty());
  CHECK(model::tp_complaint(config, 3) == "must divide the model's 4 attention heads");
  CHECK(model::tp_complaint(config, 4) == "must divide the model's intermediate_size of 14");
  model::ModelConfig wide = config;
  wide.heads = 12;
  wide.kv_heads = 4;
  CHECK(model::tp_complaint(wide, 6) ==
        "must divide the model's 4 key-value heads or be a multiple of them");
}

}  // namespace verlcpp::test
