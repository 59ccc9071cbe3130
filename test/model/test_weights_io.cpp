#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>

#include "base/error.h"
#include "cpu/cpu_backend.h"
#include "data/text_file.h"
#include "model/weights_io.h"
#include "support/catch.h"

using Catch::Matchers::ContainsSubstring;
using namespace verlcpp;
using namespace verlcpp::model;
namespace fs = std::filesystem;

namespace {

const std::string kReference = VERLCPP_REFERENCE;

/// A folder of this process, removed at the end of the test.
class TemporaryFolder {
 public:
  TemporaryFolder()
      : path_(fs::temp_directory_path() / ("verlcpp_weights_io_" + std::to_string(::getpid()))) {
    fs::remove_all(path_);
    fs::create_directories(path_);
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  std::string file(const std::string& name) const { return (path_ / name).string(); }
  std::string path() const { return path_.string(); }

 private:
  fs::path path_;
};

void write_file(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

/// A safetensors file by hand.
std::string file_of(const std::string& header, const std::string& data) {
  std::string out;
  for (int i = 0; i < 8; ++i) out += static_cast<char>(header.size() >> (8 * i) & 0xFF);
  return out + header + data;
}

std::string error_of(const std::string& path) {
  try {
    const SafetensorsReader reader(path);
  } catch (const DataError& error) {
    return error.what();
  }
  return "read";
}

/// A tensor with its bytes.
struct Stored {
  TensorEntry entry;
  std::vector<std::byte> bytes;
};

template <class T>
Stored tensor_of(const std::string& name, DType dtype, Shape shape, const std::vector<T>& values) {
  const auto bytes = std::as_bytes(std::span(values));
  return {{name, dtype, std::move(shape)}, {bytes.begin(), bytes.end()}};
}

/// Writes a file in one go.
void write_safetensors(const std::string& path, const std::vector<Stored>& tensors) {
  std::vector<TensorEntry> entries;
  for (const Stored& tensor : tensors) entries.push_back(tensor.entry);
  SafetensorsWriter file(path, entries);
  file.create();
  for (const Stored& tensor : tensors) file.write(tensor.entry.name, 0, tensor.bytes);
  file.close();
}

template <class T>
std::vector<T> values_of(const StoredTensor& tensor) {
  std::vector<T> out(tensor.bytes.size() / sizeof(T));
  std::memcpy(out.data(), tensor.bytes.data(), tensor.bytes.size());
  return out;
}

/// A buffer of the model in `folder`, with what it refers to.
struct Model {
  Model(const std::string& folder, DType dtype)
      : config(read_model_config(folder)),
        layout(config, 2),
        weights(backend, layout, dtype, MemoryTag::kWeights) {}
  cpu::CpuBackend backend;
  ModelConfig config;
  ParameterLayout layout;
  ParameterBuffer weights;

  /// Writes all tensors as `dtype` under HF name + `suffix`.
  void write(const std::string& path, DType dtype, const std::string& suffix) {
    SafetensorsWriter file(path, hf_entries(layout, dtype, suffix));
    file.create();
    write_hf_share(backend, weights, layout.whole(), suffix, file);
    file.close();
  }
};

/// Every tensor of a file.
std::vector<Stored> read_all(const std::string& path) {
  const SafetensorsReader reader(path);
  std::vector<Stored> tensors;
  for (const std::string& name : reader.names()) {
    const StoredTensor& t = *reader.find(name);
    tensors.push_back({{name, t.dtype, t.shape}, {t.bytes.begin(), t.bytes.end()}});
  }
  return tensors;
}

}  // namespace

TEST_CASE("what is written is read again") {
  const TemporaryFolder folder;
  const std::string path = folder.file("x.safetensors");
  write_safetensors(path, {tensor_of<uint16_t>("b", DType::kBFloat16, {3}, {1, 2, 3}),
                           tensor_of<double>("d", DType::kFloat64, {2, 1}, {0.5, -3}),
                           tensor_of<float>("empty", DType::kFloat32, {0, 4}, {}),
                           tensor_of<int64_t>("scalar", DType::kInt64, {}, {-7})});
  const SafetensorsReader reader(path);
  CHECK(reader.names() == std::vector<std::string>{"b", "d", "empty", "scalar"});
  CHECK(reader.find("c") == nullptr);
  const StoredTensor* d = reader.find("d");
  REQUIRE(d != nullptr);
  CHECK(d->dtype == DType::kFloat64);
  CHECK(d->shape == Shape{2, 1});
  CHECK(values_of<double>(*d) == std::vector<double>{0.5, -3});
  CHECK(reinterpret_cast<uintptr_t>(d->bytes.data()) % 8 == 0);
  CHECK(values_of<uint16_t>(*reader.find("b")) == std::vector<uint16_t>{1, 2, 3});
  CHECK(reader.find("empty")->bytes.empty());
  CHECK(reader.find("scalar")->shape.empty());
  CHECK(values_of<int64_t>(*reader.find("scalar")) == std::vector<int64_t>{-7});
}

TEST_CASE("the machine's refusals name path, bytes and reason") {
  const std::vector<Stored> tensors = {tensor_of<float>("a", DType::kFloat32, {2}, {1, 2})};
  CHECK_THROWS_WITH(write_safetensors("/nowhere/x", tensors),
                    "/nowhere/x: cannot write 104 bytes: No such file or directory");
  CHECK_THROWS_WITH(write_safetensors("/dev/full", tensors),
                    "/dev/full: cannot write 104 bytes: No space left on device");
  CHECK_THROWS_AS(write_safetensors("/dev/full", tensors), DeviceError);
}

TEST_CASE("broken files are refused with file, tensor and reason") {
  const TemporaryFolder folder;
  const std::string path = folder.file("x.safetensors");
  const auto error = [&](const std::string& header, const std::string& data) {
    write_file(path, file_of(header, data));
    const std::string message = error_of(path);
    return message.starts_with(path + ": ") ? message.substr(path.size() + 2) : message;
  };
  const std::string f32 = R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";
  CHECK(error(f32, "12345678") == "read");
  CHECK(error(f32, "1234567") ==
        "tensor \"a\": data_offsets [0,8] outside the file's 7 bytes of data; truncated?");
  CHECK(error(f32, "123456789") == "1 bytes of data belong to no tensor");
  CHECK(error("[]", "") == "the header is not a JSON object");
  CHECK(error("{", "") == "the header is not a JSON object");
  CHECK(error(R"({"a":{"dtype":"F32","shape":[2]}})", "12345678") ==
        "tensor \"a\": its header entry lacks dtype, shape or data_offsets");
  CHECK(error(R"({"a":{"dtype":"F8","shape":[2],"data_offsets":[0,8]}})", "12345678") ==
        "tensor \"a\": dtype \"F8\"; valid: F64, F32, BF16, F16, I32, I64");
  CHECK(error(R"({"a":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}})", "12345678") ==
        "tensor \"a\": shape [-2]; valid: a list of sizes");
  CHECK(error(R"({"a":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}})", "12345678") ==
        "tensor \"a\": data_offsets [0,8] hold 8 bytes, which is not the size of shape [3] in "
        "float32");
  // 2^62 elements of 4 bytes are 2^64 bytes: no wrap to zero.
  CHECK(error(R"({"a":{"dtype":"F32","shape":[4611686018427387904],"data_offsets":[0,0]}})", "")
            .starts_with("tensor \"a\": data_offsets [0,0] hold 0 bytes"));
  CHECK(error(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}})", "12345678")
            .starts_with("tensor \"a\": data_offsets [8,0] outside"));
  CHECK(error(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
              R"("b":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})",
              "12345678") == "tensor \"b\": overlaps another tensor");
  CHECK(error(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})", "12345678") ==
        "tensor \"a\": begins after a hole in the data");
  CHECK(error(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
              R"("a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})",
              "12345678") == "a tensor is named twice in the header");
  write_file(path, "1234567");
  CHECK(error_of(path) == path + ": 7 bytes; a safetensors file has at least 8");
  write_file(path, "");
  CHECK(error_of(path) == path + ": 0 bytes; a safetensors file has at least 8");
  write_file(path, std::string(20, '\xFF'));
  CHECK(error_of(path) == path +
                              ": the header claims 18446744073709551615 bytes of a file of 20; "
                              "not a safetensors file, or truncated");
  CHECK(error_of("/nowhere") == "/nowhere: does not exist");
  CHECK(error_of("/dev/null") == "/dev/null: not a file");
}

TEST_CASE("a truncated file is always refused") {
  const TemporaryFolder folder;
  const std::string whole = data::read_text_file(kReference + "/qwen2/model.safetensors");
  const std::string path = folder.file("x.safetensors");
  for (size_t size = 0; size < whole.size(); size += size < 3000 ? 37 : 4999) {
    write_file(path, whole.substr(0, size));
    INFO(size);
    CHECK(error_of(path) != "read");
  }
}

TEST_CASE("a garbled header gives DataError or in-range tensors, nothing else") {
  const TemporaryFolder folder;
  const std::string path = folder.file("x.safetensors");
  const std::string whole =
      file_of(R"({"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[2,3],)"
              R"("data_offsets":[0,24]},"bb":{"dtype":"I64","shape":[1],"data_offsets":[24,32]}})",
              std::string(32, '\x01'));
  std::mt19937 random(5);
  int refused = 0, read = 0;
  for (int round = 0; round < 800; ++round) {
    std::string text = whole;
    for (int change = 0; change < 1 + round % 3; ++change) {
      const bool digit = random() % 2 == 0;
      text[random() % text.size()] = static_cast<char>(digit ? '0' + random() % 10 : random());
    }
    write_file(path, text);
    try {
      const SafetensorsReader reader(path);
      for (const std::string& name : reader.names()) {
        for (const std::byte byte : reader.find(name)->bytes) read += byte == std::byte{1};
      }
    } catch (const DataError&) {
      ++refused;
    }
  }
  CHECK(refused > 200);
  CHECK(read > 1000);
}

TEST_CASE("a sharded set through its index") {
  const TemporaryFolder folder;
  write_safetensors(folder.file("one.safetensors"),
                    {tensor_of<float>("a", DType::kFloat32, {1}, {1}),
                     tensor_of<float>("unlisted", DType::kFloat32, {1}, {9})});
  write_safetensors(folder.file("two.safetensors"),
                    {tensor_of<float>("b", DType::kFloat32, {1}, {2})});
  const std::string index = folder.file("model.safetensors.index.json");
  CHECK(error_of(folder.path()) ==
        folder.path() + ": holds neither model.safetensors nor model.safetensors.index.json");
  write_file(index, R"({"weight_map": {"a": "one.safetensors", "b": "two.safetensors"}})");
  {
    const SafetensorsReader reader(folder.path());
    CHECK(reader.names() == std::vector<std::string>{"a", "b"});
    CHECK(values_of<float>(*reader.find("b")) == std::vector<float>{2});
  }
  write_file(index, R"({"weight_map": {"b": "one.safetensors"}})");
  CHECK(error_of(folder.path()) ==
        index + ": tensor \"b\": is not in one.safetensors as the index says");
  write_file(index, R"({"weight_map": {"b": "../one.safetensors"}})");
  CHECK(error_of(folder.path()) ==
        index + ": tensor \"b\": file \"../one.safetensors\"; valid: a name in this folder");
  write_file(index, R"({"weight_map": {"b": "three.safetensors"}})");
  CHECK(error_of(folder.path()) ==
        index + ": tensor \"b\": file \"three.safetensors\" is not in this folder");
  write_file(index, "{}");
  CHECK(error_of(folder.path()) ==
        index + R"(: has no weight_map object; valid: {"weight_map": {TENSOR: FILE, ...}})");
}

TEST_CASE("weights land in the fused tensors") {
  Model model(kReference + "/qwen2", DType::kFloat64);
  load_hf_weights(model.backend, kReference + "/qwen2", model.weights);
  const SafetensorsReader reader(kReference + "/qwen2");
  for (const ParamSpec& spec : model.layout.specs()) {
    std::vector<double> expected;
    for (const HfPiece& piece : spec.pieces) {
      const StoredTensor* stored = reader.find(piece.hf_name);
      REQUIRE(stored != nullptr);
      for (const float value : values_of<float>(*stored)) expected.push_back(value);
    }
    INFO(spec.name);
    CHECK(download(model.backend, model.weights.at(spec.name)) == expected);
  }
}

TEST_CASE("tensors that the model does not use are returned as one warning") {
  const TemporaryFolder folder;
  Model model(kReference + "/qwen2", DType::kFloat32);
  CHECK(load_hf_weights(model.backend, kReference + "/qwen2", model.weights).empty());
  auto tensors = read_all(kReference + "/qwen2/model.safetensors");
  for (const char* name : {"extra.a", "extra.b"}) {
    tensors.push_back(tensor_of<float>(name, DType::kFloat32, {2}, {1, 2}));
  }
  write_safetensors(folder.file("model.safetensors"), tensors);
  CHECK(load_hf_weights(model.backend, folder.path(), model.weights) ==
        folder.file("model.safetensors") + ": tensors not used by this model: extra.a, extra.b");
}

TEST_CASE("the stored floating dtypes become the run's") {
  const TemporaryFolder folder;
  Model model(kReference + "/llama", DType::kFloat32);
  load_hf_weights(model.backend, kReference + "/llama", model.weights);
  const std::vector<double> original = download(model.backend, model.weights.flat());
  // Half a unit in the last place of each format; float16 adds its subnormal spacing.
  const std::vector<std::pair<DType, double>> formats = {{DType::kFloat64, 0},
                                                         {DType::kFloat32, 0},
                                                         {DType::kBFloat16, 0x1p-8},
                                                         {DType::kFloat16, 0x1p-11}};
  for (const auto& [dtype, bound] : formats) {
    const std::string path = folder.file(std::string(name_of(dtype)));
    model.write(path, dtype, ".exp_avg");
    const SafetensorsReader reader(path);
    CHECK(reader.find("model.norm.weight.exp_avg")->dtype == dtype);
    const ParameterBuffer again(model.backend, model.layout, DType::kFloat64, MemoryTag::kWeights);
    load_hf_tensors(model.backend, reader, ".exp_avg", again);
    const std::vector<double> values = download(model.backend, again.flat());
    double worst = 0;
    for (size_t i = 0; i < values.size(); ++i) {
      const double allowed = bound * std::abs(original[i]) + (bound > 0 ? 0x1p-25 : 0);
      worst = std::max(worst, std::abs(values[i] - original[i]) - allowed);
    }
    INFO(name_of(dtype));
    CHECK(worst <= 0);
  }
}

TEST_CASE("16-bit formats are read by their bits") {
  const TemporaryFolder folder;
  Model model(kReference + "/qwen2", DType::kFloat64);
  auto tensors = read_all(kReference + "/qwen2/model.safetensors");
  for (Stored& tensor : tensors) {
    if (tensor.entry.name == "model.norm.weight") {
      std::vector<uint16_t> bits(32, 0);
      bits[0] = 0x3FC0;  // 1.5
      bits[1] = 0xC2F7;  // -123.5
      tensor = tensor_of<uint16_t>(tensor.entry.name, DType::kBFloat16, {32}, bits);
    } else if (tensor.entry.name == "model.layers.0.input_layernorm.weight") {
      std::vector<uint16_t> bits(32, 0);
      bits[0] = 0x3E00;  // 1.5
      bits[1] = 0x0001;  // 2^-24, the smallest
      tensor = tensor_of<uint16_t>(tensor.entry.name, DType::kFloat16, {32}, bits);
    }
  }
  write_safetensors(folder.file("model.safetensors"), tensors);
  load_hf_weights(model.backend, folder.path(), model.weights);
  const auto bf16 = download(model.backend, model.weights.at("norm.weight"));
  CHECK(bf16[0] == 1.5);
  CHECK(bf16[1] == -123.5);
  const auto f16 = download(model.backend, model.weights.at("layers.0.input_layernorm.weight"));
  CHECK(f16[0] == 1.5);
  CHECK(f16[1] == 0x1p-24);
}

TEST_CASE("a head that differs from the embedding it is tied to is refused, an equal one is not") {
  const TemporaryFolder folder;
  Model model(kReference + "/qwen2", DType::kFloat32);
  auto tensors = read_all(kReference + "/qwen2/model.safetensors");
  Stored head;
  for (const Stored& tensor : tensors) {
    if (tensor.entry.name == "model.embed_tokens.weight") head = tensor;
  }
  head.entry.name = "lm_head.weight";
  tensors.push_back(head);
  const std::string file = folder.file("model.safetensors");
  write_safetensors(file, tensors);
  CHECK(load_hf_weights(model.backend, folder.path(), model.weights) ==
        file + ": tensors not used by this model: lm_head.weight");
  tensors.back().bytes.front() ^= std::byte{1};
  write_safetensors(file, tensors);
  CHECK_THROWS_WITH(load_hf_weights(model.backend, folder.path(), model.weights),
                    file +
                        ": lm_head.weight differs from model.embed_tokens.weight, but config.json "
                        "has tie_word_embeddings: true; valid: equal ones, or false");
}

TEST_CASE("a folder whose weights do not fit its configuration") {
  const TemporaryFolder folder;
  Model model(kReference + "/qwen2", DType::kFloat32);
  auto tensors = read_all(kReference + "/qwen2/model.safetensors");
  std::erase_if(tensors, [](const auto& t) { return t.entry.name == "model.norm.weight"; });
  for (Stored& tensor : tensors) {
    TensorEntry& entry = tensor.entry;
    if (entry.name == "model.layers.1.self_attn.k_proj.bias") entry.shape = {4, 4};
    if (entry.name == "model.layers.0.input_layernorm.weight") entry.dtype = DType::kInt32;
  }
  write_safetensors(folder.file("model.safetensors"), tensors);
  CHECK_THROWS_WITH(
      load_hf_weights(model.backend, folder.path(), model.weights),
      folder.file("model.safetensors") +
          ": model.layers.1.self_attn.k_proj.bias has shape [4, 4], the configuration asks for "
          "[16]; model.layers.0.input_layernorm.weight is int32; valid: float64, float32, "
          "bfloat16, float16; model.norm.weight is missing");
  CHECK_THROWS_WITH(check_hf_weights(folder.path(), read_model_config(kReference + "/qwen2")),
                    ContainsSubstring("model.norm.weight is missing"));
  CHECK_NOTHROW(check_hf_weights(kReference + "/qwen2", read_model_config(kReference + "/qwen2")));
}

TEST_CASE("a large tensor is written with signs of life in between") {
  const TemporaryFolder folder;
  const int64_t count = (int64_t{80} << 20) / 8;  // more than goes to the system at once
  const std::vector<double> values(static_cast<size_t>(count), 0.5);
  int beats = 0;
  SafetensorsWriter file(folder.path() + "/x.safetensors", {{"x", DType::kFloat64, {count}}},
                         [&] { ++beats; });
  file.create();
  const int created = beats;
  CHECK(created >= 2);
  file.write("x", 0, std::as_bytes(std::span(values)));
  CHECK(beats >= created + 2);
  file.close();
  const SafetensorsReader reader(folder.path() + "/x.safetensors");
  CHECK(values_of<double>(*reader.find("x")) == values);
}
