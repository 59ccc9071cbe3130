// What an export holds beside the weights, and that the whole is the model again.

#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "cpu/cpu_backend.h"
#include "data/chat_template.h"
#include "data/text_file.h"
#include "model/export_files.h"
#include "model/weights_io.h"
#include "support/catch.h"
#include "support/temporary_folder.h"
#include "tiny_model.h"

using namespace verlcpp;
using namespace verlcpp::model;
using test::TemporaryFolder;
using Json = nlohmann::ordered_json;
namespace fs = std::filesystem;

namespace {

const std::string kReference = VERLCPP_REFERENCE;
const std::string kCustom = "{% for m in messages %}<{{ m['content'] }}>{% endfor %}\"é\"\n!";

std::string text(const std::string& folder, const std::string& name) {
  return data::read_text_file(folder + "/" + name);
}

/// A folder's model in double precision.
class Loaded {
 public:
  explicit Loaded(const std::string& folder)
      : config(read_model_config(folder)),
        layout_(config, 1),
        weights_(backend_, layout_, DType::kFloat64, MemoryTag::kWeights) {
    load_hf_weights(backend_, folder, weights_);
  }
  /// Of two documents, longer than any window or original context of the references is short.
  std::vector<double> log_probs() {
    const Transformer transformer(backend_, config, DType::kFloat64);
    const ContextParallelAttention attention(backend_, nullptr);
    const auto documents = test::random_documents(config, {60, 13});
    const test::RankBatch batch(transformer, test::whole_group(1, documents), 0, 1, documents);
    return download(backend_, transformer.forward(weights_, batch.device(), attention).log_prob_R);
  }
  void export_to(const ExportSource& source, const std::string& folder) {
    export_hf_files(source, folder, config, DType::kFloat32);
    SafetensorsWriter file(folder + "/model.safetensors", hf_entries(layout_, DType::kFloat32, ""));
    file.create();
    write_hf_share(backend_, weights_, layout_.whole(), "", file);
    file.close();
  }
  ModelConfig config;

 private:
  cpu::CpuBackend backend_;
  ParameterLayout layout_;
  ParameterBuffer weights_;
};

void check_same_tensors(const std::string& got, const std::string& want) {
  const SafetensorsReader after(got), before(want);
  CHECK(after.names() == before.names());
  for (const std::string& name : before.names()) {
    INFO(name);
    const StoredTensor &a = *after.find(name), &b = *before.find(name);
    CHECK(a.dtype == b.dtype);
    CHECK(a.shape == b.shape);
    CHECK(std::equal(a.bytes.begin(), a.bytes.end(), b.bytes.begin(), b.bytes.end()));
  }
}

}  // namespace

TEST_CASE("an exported folder is the source: weights, configuration, log-probs") {
  const std::string kind =
      GENERATE("qwen2", "qwen3", "llama", "llama3", "mistral", "linear", "yarn");
  CAPTURE(kind);
  const TemporaryFolder folder;
  const std::string source = kReference + "/" + kind, target = folder.path() + "/a/b";
  Loaded model(source);
  model.export_to({source}, target);
  check_same_tensors(target, source);
  // rope_parameters, sliding_window, attention_bias, tie_word_embeddings and all the rest.
  CHECK(Json::parse(text(target, "config.json")) == Json::parse(text(source, "config.json")));
  for (const auto& entry : fs::directory_iterator(source)) {
    const std::string name = entry.path().filename().string();
    if (name.ends_with(".safetensors") || name == "tokenizer_cases.json") continue;
    INFO(name);
    REQUIRE(fs::exists(target + "/" + name));
    if (name != "config.json") CHECK(text(target, name) == text(source, name));
  }
  CHECK_FALSE(fs::exists(target + "/merges.txt"));
  Loaded again(target);
  CHECK(again.config.eos_token_ids == model.config.eos_token_ids);
  CHECK(again.log_probs() == model.log_probs());
}

TEST_CASE("config.json as older transformers write it is exported with all it says") {
  const TemporaryFolder folder;
  const Json json = Json::parse(R"({"architectures": ["LlamaForCausalLM"], "rope_theta": 1e4,
      "rope_scaling": {"factor": 8.0, "rope_type": "llama3", "low_freq_factor": 1.0},
      "sliding_window": null, "attention_bias": false, "eos_token_id": [1, 2], "mine": "é"})");
  ModelConfig config;
  config.json = json.dump();
  export_hf_files({kReference + "/llama"}, folder.path(), config, DType::kBFloat16);
  Json want = json;
  want["torch_dtype"] = "bfloat16";
  CHECK(Json::parse(text(folder.path(), "config.json")).dump() == want.dump());
}

TEST_CASE("a custom chat template goes where transformers reads it") {
  const TemporaryFolder folder;
  const std::string source = folder.path() + "/source", target = folder.path() + "/target";
  ModelConfig config;
  config.json = "{}";
  const auto exported = [&] {
    fs::remove_all(target);
    export_hf_files({source, kCustom}, target, config, DType::kFloat32);
    const data::Message hi{"user", "hi"};
    CHECK(data::render_chat(data::load_chat_template(target), std::span(&hi, 1), true) ==
          "<hi>\"é\"\n!");
  };
  SECTION("tokenizer_config.json, where the source has no file for it") {
    folder.write("source/tokenizer_config.json",
                 R"({"b": 1, "chat_template": [{"name": "default", "template": "x"}], "a": "é"})");
    folder.write("source/special_tokens_map.json", "{}");
    exported();
    CHECK_FALSE(fs::exists(target + "/chat_template.jinja"));
    const Json want = {{"b", 1}, {"chat_template", kCustom}, {"a", "é"}};
    CHECK(Json::parse(text(target, "tokenizer_config.json")).dump() == want.dump());
    CHECK(text(target, "special_tokens_map.json") == "{}");
  }
  SECTION("chat_template.jinja, where the source has it; then no other template is left") {
    folder.write("source/tokenizer_config.json", R"({"chat_template": "old", "eos_token": "."})");
    folder.write("source/chat_template.jinja", "old");
    folder.write("source/additional_chat_templates/tool_use.jinja", "tools");
    exported();
    CHECK(text(target, "chat_template.jinja") == kCustom);
    CHECK(Json::parse(text(target, "tokenizer_config.json"))["chat_template"] == kCustom);
    CHECK_FALSE(fs::exists(target + "/additional_chat_templates"));
    export_hf_files({source}, target, config, DType::kFloat32);
    CHECK(text(target, "chat_template.jinja") == "old");
    CHECK(text(target, "additional_chat_templates/tool_use.jinja") == "tools");
  }
  SECTION("chat_template.jinja, where the source has no tokenizer_config.json") {
    folder.write("source/tokenizer.json", "{}");
    exported();
    CHECK(text(target, "chat_template.jinja") == kCustom);
    CHECK_FALSE(fs::exists(target + "/tokenizer_config.json"));
  }
}

TEST_CASE("an export that cannot be written names the path") {
  ModelConfig config;
  config.json = "{}";
  CHECK_THROWS_AS(
      export_hf_files({kReference + "/qwen2"}, "/proc/nowhere", config, DType::kFloat32),
      DeviceError);
}
