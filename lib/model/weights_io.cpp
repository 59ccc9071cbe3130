#include "model/weights_io.h"

#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <system_error>

#include "base/error.h"
#include "base/log.h"
#include "data/text_file.h"
#include "model/synced_file.h"

namespace verlcpp::model {

namespace {

namespace fs = std::filesystem;

/// Names listed in one message, the rest counted.
constexpr size_t kListed = 10;

std::string join(const std::vector<std::string>& lines, const std::string& separator) {
  std::string out;
  for (size_t i = 0; i < lines.size() && i < kListed; ++i) out += (i ? separator : "") + lines[i];
  if (lines.size() > kListed) {
    out += separator + "and " + std::to_string(lines.size() - kListed) + " more";
  }
  return out;
}

bool is_float(DType dtype) { return dtype != DType::kInt32 && dtype != DType::kInt64; }

/// What is wrong with the stored tensor of `piece`; empty when nothing is.
std::string complaint(const StoredTensor* stored, const std::string& name, const HfPiece& piece) {
  if (!stored) return name + " is missing";
  if (stored->shape != piece.shape) {
    return name + " has shape " + to_string(stored->shape) + ", the configuration asks for " +
           to_string(piece.shape);
  }
  if (!is_float(stored->dtype)) {
    return name + " is " + std::string(name_of(stored->dtype)) +
           "; valid: float64, float32, bfloat16, float16";
  }
  return "";
}

/// All complaints first, so that a wrong file touches nothing.
void check_pieces(const SafetensorsReader& reader, const std::string& suffix,
                  const ParameterLayout& layout) {
  std::vector<std::string> complaints;
  for (const ParamSpec& spec : layout.specs()) {
    for (const HfPiece& piece : spec.pieces) {
      const std::string name = piece.hf_name + suffix;
      const std::string what = complaint(reader.find(name), name, piece);
      if (!what.empty()) complaints.push_back(what);
    }
  }
  if (!complaints.empty()) throw DataError(reader.path() + ": " + join(complaints, "; "));
}

void warn_of_unexpected(const SafetensorsReader& reader, const ParameterLayout& layout) {
  std::set<std::string> expected;
  for (const ParamSpec& spec : layout.specs()) {
    for (const HfPiece& piece : spec.pieces) expected.insert(piece.hf_name);
  }
  std::vector<std::string> unexpected;
  for (const std::string& name : reader.names()) {
    if (!expected.contains(name)) unexpected.push_back(name);
  }
  if (unexpected.empty()) return;
  log::warning(reader.path() + ": tensors not used by this model: " + join(unexpected, ", "));
}

/// The config with the dtype that was written, under the key or keys the source uses.
std::string config_text(const ModelConfig& config, DType dtype) {
  nlohmann::ordered_json json = nlohmann::ordered_json::parse(config.json);
  const std::string name(name_of(dtype));
  if (json.contains("dtype")) json["dtype"] = name;
  if (json.contains("torch_dtype") || !json.contains("dtype")) json["torch_dtype"] = name;
  return json.dump(2) + "\n";
}

}  // namespace

void load_hf_tensors(Backend& backend, const SafetensorsReader& reader, const std::string& suffix,
                     const ParameterBuffer& buffer) {
  check_pieces(reader, suffix, buffer.layout());
  for (const ParamSpec& spec : buffer.layout().specs()) {
    const Tensor tensor = buffer.at(spec.name);
    for (const HfPiece& piece : spec.pieces) {
      const StoredTensor& stored = *reader.find(piece.hf_name + suffix);
      const Tensor target = tensor.rows(piece.row, piece.shape[0]);
      if (stored.dtype == target.dtype()) {
        backend.write(target, stored.bytes);
        continue;
      }
      const Tensor staged = backend.allocate(stored.dtype, piece.shape, MemoryTag::kWorkspace);
      backend.write(staged, stored.bytes);
      backend.copy(target, staged);
    }
  }
}

bool has_weights(const std::string& folder) {
  return fs::is_regular_file(fs::path(folder) / "model.safetensors") ||
         fs::is_regular_file(fs::path(folder) / "model.safetensors.index.json");
}

void load_hf_weights(Backend& backend, const std::string& folder, const ParameterBuffer& weights) {
  const SafetensorsReader reader(folder);
  load_hf_tensors(backend, reader, "", weights);
  warn_of_unexpected(reader, weights.layout());
}

std::vector<TensorToWrite> hf_tensors(Backend& backend, const ParameterBuffer& buffer, DType dtype,
                                      const std::string& suffix) {
  expects(is_float(dtype), "weights are stored in a floating dtype");
  std::vector<TensorToWrite> out;
  for (const ParamSpec& spec : buffer.layout().specs()) {
    const Tensor tensor = buffer.at(spec.name);
    for (const HfPiece& piece : spec.pieces) {
      const Tensor source = tensor.rows(piece.row, piece.shape[0]);
      out.push_back({piece.hf_name + suffix, dtype, piece.shape,
                     [&backend, source, dtype](std::span<std::byte> bytes) {
                       Tensor stored = source;
                       if (dtype != source.dtype()) {
                         stored = backend.allocate(dtype, source.shape(), MemoryTag::kWorkspace);
                         backend.copy(stored, source);
                       }
                       backend.read(bytes, stored);
                     }});
    }
  }
  return out;
}

void export_hf_folder(Backend& backend, const std::string& source_folder,
                      const std::string& target_folder, const ModelConfig& config,
                      const ParameterBuffer& weights, DType dtype) {
  std::error_code failure;
  fs::create_directories(target_folder, failure);
  if (failure) throw DeviceError(target_folder + ": cannot be created: " + failure.message());
  for (const char* name :
       {"generation_config.json", "tokenizer.json", "tokenizer_config.json",
        "special_tokens_map.json", "vocab.json", "merges.txt", "chat_template.jinja"}) {
    const std::string source = source_folder + "/" + name;
    if (!fs::exists(source)) continue;
    write_synced(target_folder + "/" + name, data::read_text_file(source));
  }
  write_synced(target_folder + "/config.json", config_text(config, dtype));
  write_safetensors(target_folder + "/model.safetensors", hf_tensors(backend, weights, dtype, ""));
}

}  // namespace verlcpp::model
