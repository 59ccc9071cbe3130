#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "model/safetensors_format.h"
#include "model/synced_file.h"
#include "model/weights_io.h"

namespace verlcpp::model {

namespace {

int64_t bytes_of(const TensorEntry& tensor) {
  return numel_of(tensor.shape) * size_of(tensor.dtype);
}

std::string dtype_name(DType dtype) {
  for (const auto& [known, name] : kSafetensorsDTypes) {
    if (known == dtype) return std::string(name);
  }
  expects(false, "a dtype without a safetensors name");
  return "";
}

/// The JSON header, padded with spaces to a multiple of 8 bytes so that the data is aligned.
std::string make_header(const std::vector<TensorEntry>& tensors) {
  nlohmann::ordered_json header;
  header["__metadata__"] = {{"format", "pt"}};
  int64_t begin = 0;
  for (const TensorEntry& tensor : tensors) {
    expects(!header.contains(tensor.name), "a tensor is written twice: " + tensor.name);
    const int64_t end = begin + bytes_of(tensor);
    header[tensor.name] = {{"dtype", dtype_name(tensor.dtype)},
                           {"shape", tensor.shape},
                           {"data_offsets", {begin, end}}};
    begin = end;
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  return text;
}

}  // namespace

SafetensorsWriter::SafetensorsWriter(std::string path, std::vector<TensorEntry> tensors,
                                     std::function<void()> beat)
    : path_(std::move(path)), beat_(std::move(beat)) {
  std::stable_sort(tensors.begin(), tensors.end(), [](const auto& a, const auto& b) {
    return size_of(a.dtype) > size_of(b.dtype);
  });
  const std::string json = make_header(tensors);
  for (size_t i = 0; i < 8; ++i) header_ += static_cast<char>(json.size() >> (8 * i) & 0xFF);
  header_ += json;
  bytes_ = static_cast<int64_t>(header_.size());
  for (const TensorEntry& tensor : tensors) {
    places_[tensor.name] = {tensor.dtype, bytes_};
    bytes_ += bytes_of(tensor);
  }
}

SafetensorsWriter::~SafetensorsWriter() = default;

void SafetensorsWriter::create() const {
  SyncedFile file(path_, bytes_, SyncedFile::Open::kCreate, beat_);
  file.reserve();
  file.write(std::as_bytes(std::span(header_)));
  file.close();
}

void SafetensorsWriter::write(const std::string& name, int64_t first,
                              std::span<const std::byte> bytes) {
  if (!file_)
    file_ = std::make_unique<SyncedFile>(path_, bytes_, SyncedFile::Open::kExisting, beat_);
  const Place& place = places_.at(name);
  file_->write_at(place.offset + first * size_of(place.dtype), bytes);
}

void SafetensorsWriter::close() {
  if (file_) file_->close();
  file_.reset();
}

}  // namespace verlcpp::model
