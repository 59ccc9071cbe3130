#include "shapes.h"

#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>

#include "base/error.h"

namespace verlcpp::bench {
namespace {

model::ModelConfig qwen2(int64_t layers, int64_t hidden, int64_t heads, int64_t kv_heads,
                         int64_t head_dim, int64_t ffn, int64_t vocab, bool tied) {
  model::ModelConfig c;
  c.architecture = "Qwen2ForCausalLM";
  c.layers = layers;
  c.hidden = hidden;
  c.heads = heads;
  c.kv_heads = kv_heads;
  c.head_dim = head_dim;
  c.ffn = ffn;
  c.vocab = vocab;
  c.rope.theta = 1e6;
  c.qkv_bias = true;
  c.tied_embeddings = tied;
  c.max_positions = 32768;
  return c;
}

const std::map<std::string, model::ModelConfig>& models() {
  static const std::map<std::string, model::ModelConfig> all{
      {"0.5B", qwen2(24, 896, 14, 2, 64, 4864, 151936, true)},
      {"1.5B", qwen2(28, 1536, 12, 2, 128, 8960, 151936, true)},
      {"7B-slice", qwen2(8, 3584, 28, 4, 128, 18944, 152064, false)},
      {"tiny", qwen2(2, 32, 4, 2, 8, 48, 97, true)},
  };
  return all;
}

/// Log-normal lengths with median 700 and sigma 1, cut to 16..8192; the last fills the total.
const std::vector<int64_t> kLogNormal36{541,  1167, 558,  510, 276,  565,  2128, 1069, 1974,
                                        897,  1038, 842,  132, 1646, 1161, 1152, 128,  122,
                                        287,  438,  950,  668, 1178, 368,  953,  1038, 361,
                                        3899, 1221, 2317, 376, 334,  496,  629,  1317, 32};
/// The first of the same with a total of 16384.
const std::vector<int64_t> kLogNormal20{541,  1167, 558, 510,  276,  565,  2128, 1069, 1974, 897,
                                        1038, 842,  132, 1646, 1161, 1152, 128,  122,  287,  191};

std::vector<int64_t> from_file(const std::string& path) {
  std::ifstream in(path);
  const auto json = nlohmann::json::parse(in, nullptr, false);
  std::vector<int64_t> lengths;
  if (json.is_array()) {
    for (const auto& value : json) {
      if (value.is_number_integer()) lengths.push_back(value.get<int64_t>());
    }
  }
  if (lengths.empty() || lengths.size() != json.size()) {
    throw ConfigError("--lengths: " + path + " is not a JSON array of whole numbers");
  }
  return lengths;
}

std::vector<int64_t> parsed(const std::string& text) {
  if (text == "LN20") return kLogNormal20;
  if (text == "lognormal36") return kLogNormal36;
  std::smatch match;
  if (std::regex_match(text, match, std::regex("([1-9][0-9]{0,5})x([1-9][0-9]{0,6})"))) {
    return std::vector<int64_t>(static_cast<size_t>(std::stol(match[1])), std::stol(match[2]));
  }
  if (std::regex_match(text, std::regex("[0-9]{1,7}(,[0-9]{1,7})*"))) {
    std::vector<int64_t> lengths;
    std::istringstream in(text);
    for (std::string word; std::getline(in, word, ',');) lengths.push_back(std::stol(word));
    return lengths;
  }
  if (std::filesystem::is_regular_file(text)) return from_file(text);
  throw ConfigError("--lengths=" + text +
                    ": neither a preset (LN20, lognormal36, 16x2048), nor lengths like 5,7,9, nor "
                    "a file");
}

}  // namespace

std::vector<std::string> model_names() {
  std::vector<std::string> names;
  for (const auto& [name, config] : models()) names.push_back(name);
  return names;
}

model::ModelConfig model_named(const std::string& name) { return models().at(name); }

std::vector<int64_t> lengths_of(const std::string& text) {
  const std::vector<int64_t> lengths = parsed(text);
  for (const int64_t s : lengths) {
    if (s < 2) {
      throw ConfigError("--lengths=" + text + ": a document has 2 tokens or more, not " +
                        std::to_string(s));
    }
  }
  return lengths;
}

}  // namespace verlcpp::bench
