#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "model/parameters.h"
#include "parallel/communicator.h"

namespace verlcpp::model {

/// A tensor inside a memory-mapped safetensors file.
struct StoredTensor {
  DType dtype = DType::kFloat32;
  Shape shape;
  std::span<const std::byte> bytes;
};

class MappedFile;
class SyncedFile;

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

/// A tensor of a file to be written.
struct TensorEntry {
  std::string name;
  DType dtype = DType::kFloat32;
  Shape shape;
};

/// One .safetensors file (metadata {"format": "pt"}), wider dtypes first so that every tensor is
/// aligned, written by several ranks: one creates it, then each opens it and writes its parts.
/// DeviceError names the path, the bytes needed and the reason.
class SafetensorsWriter {
 public:
  /// `beat`, if any, is called while bytes go to the disk: a sign of life.
  SafetensorsWriter(std::string path, std::vector<TensorEntry> tensors,
                    std::function<void()> beat = {});
  ~SafetensorsWriter();
  /// Takes the file's whole size on the disk and writes the header.
  void create() const;
  /// Elements of a tensor from element `first` on, as bytes in its dtype. Needs `create`, by any
  /// rank, and a barrier.
  void write(const std::string& name, int64_t first, std::span<const std::byte> bytes);
  DType dtype_of(const std::string& name) const { return places_.at(name).dtype; }
  /// Syncs what was written to disk. Every rank that wrote calls it.
  void close();

 private:
  struct Place {
    DType dtype;
    int64_t offset = 0;  // in the file
  };
  std::string path_, header_;
  std::map<std::string, Place> places_;
  int64_t bytes_ = 0;
  std::function<void()> beat_;
  std::unique_ptr<SyncedFile> file_;
};

/// True when the folder holds model.safetensors or model.safetensors.index.json.
bool has_weights(const std::string& folder);

/// DataError unless the folder's weights are those of `model`: missing shards and tensors, wrong
/// shapes, dtypes that are not read. Looks at the headers alone.
void check_hf_weights(const std::string& folder, const ModelConfig& model);

/// Loads a Hugging Face folder's weights into the flat buffer, converting F64, F32, BF16, F16.
/// DataError as from check_hf_weights, and for a head of its own in a model with tied embeddings.
/// Returns a warning that names the tensors the
/// model does not use, "" for none: one rank of a run is to say it. `beat`, if any, is
/// called every few MiB: a sign of life.
std::string load_hf_weights(Backend& backend, const std::string& folder,
                            const ParameterBuffer& weights, const std::function<void()>& beat = {});

/// Fills a flat buffer, or the range of it that is held, from tensors named HF name + `suffix`.
void load_hf_tensors(Backend& backend, const SafetensorsReader& reader, const std::string& suffix,
                     const ParameterBuffer& buffer, const std::function<void()>& beat = {});

/// All of a model's tensors, whole, under Hugging Face names + `suffix`, stored as `dtype`.
std::vector<TensorEntry> hf_entries(const ParameterLayout& layout, DType dtype,
                                    const std::string& suffix);
/// Writes elements `share` of a flat buffer, less what another TP rank owns, to their places. The
/// shares of a pool, on all TP ranks, fill the file.
void write_hf_share(Backend& backend, const ParameterBuffer& buffer, const FlatRange& share,
                    const std::string& suffix, SafetensorsWriter& file,
                    const std::function<void()>& each_tensor = {});
/// Elements that gather_hf_tensors takes through the communicator at a time.
constexpr int64_t kGatheredAtOnce = int64_t{1} << 20;
/// The whole of a model's tensors by Hugging Face name on rank 0 of `world`, in host memory; an
/// empty map on the others. All ranks call it, each with its `share` of the buffer. Beside the
/// result it takes a few times kGatheredAtOnce float64 numbers a rank, whatever the model's size.
std::map<std::string, std::vector<double>> gather_hf_tensors(Backend& backend,
                                                             parallel::Communicator& world,
                                                             const ParameterBuffer& buffer,
                                                             const FlatRange& share);

}  // namespace verlcpp::model
