#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "model/parameters.h"

namespace verlcpp::model {

/// A tensor inside a memory-mapped safetensors file.
struct StoredTensor {
  DType dtype = DType::kFloat32;
  Shape shape;
  std::span<const std::byte> bytes;
};

class MappedFile;

/// Read-only view of one .safetensors file, or of a sharded set through its index.json. Every
/// length and offset is checked before use; DataError names the file and the tensor.
class SafetensorsReader {
 public:
  /// `path`: a .safetensors file, or a folder holding model.safetensors or
  /// model.safetensors.index.json.
  explicit SafetensorsReader(const std::string& path);
  ~SafetensorsReader();
  SafetensorsReader(const SafetensorsReader&) = delete;
  SafetensorsReader& operator=(const SafetensorsReader&) = delete;
  const StoredTensor* find(const std::string& name) const;
  std::vector<std::string> names() const;
  const std::string& path() const { return path_; }

 private:
  using Tensors = std::map<std::string, StoredTensor>;
  Tensors map_file(const std::string& path);
  void map_index(const std::string& folder);

  std::string path_;
  std::vector<std::unique_ptr<MappedFile>> mappings_;
  Tensors tensors_;
};

/// A tensor to write: `fill` puts its bytes (called once).
struct TensorToWrite {
  std::string name;
  DType dtype;
  Shape shape;
  std::function<void(std::span<std::byte>)> fill;
};
/// Writes one .safetensors file (metadata {"format": "pt"}), wider dtypes first so that every
/// tensor is aligned, file and folder synced to disk. DeviceError names the path, the bytes needed
/// and the reason.
void write_safetensors(const std::string& path, const std::vector<TensorToWrite>& tensors);

/// True when the folder holds model.safetensors or model.safetensors.index.json.
bool has_weights(const std::string& folder);

/// Loads a Hugging Face folder's weights into the flat buffer, converting F64, F32, BF16, F16.
/// DataError lists missing tensors and wrong shapes; unexpected tensors are named in one warning.
void load_hf_weights(Backend& backend, const std::string& folder, const ParameterBuffer& weights);

/// The tensors of a flat buffer under Hugging Face names + `suffix`, stored as `dtype`.
std::vector<TensorToWrite> hf_tensors(Backend& backend, const ParameterBuffer& buffer, DType dtype,
                                      const std::string& suffix);
/// Fills a flat buffer from tensors named HF name + `suffix`.
void load_hf_tensors(Backend& backend, const SafetensorsReader& reader, const std::string& suffix,
                     const ParameterBuffer& buffer);

/// Writes a Hugging Face folder: model.safetensors in `dtype`, the source's config.json with its
/// dtype set to what was written, and copies of the source's tokenizer and generation files where
/// present. Creates the folder; everything is synced to disk. DeviceError names the path.
void export_hf_folder(Backend& backend, const std::string& source_folder,
                      const std::string& target_folder, const ModelConfig& config,
                      const ParameterBuffer& weights, DType dtype);

}  // namespace verlcpp::model
