#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "model/safetensors_format.h"
#include "model/synced_file.h"
#include "model/weights_io.h"

namespace verlcpp::model {

namespace {

int64_t bytes_of(const TensorToWrite& tensor) {
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
std::string make_header(const std::vector<const TensorToWrite*>& order) {
  nlohmann::ordered_json header;
  header["__metadata__"] = {{"format", "pt"}};
  int64_t begin = 0;
  for (const TensorToWrite* tensor : order) {
    expects(!header.contains(tensor->name), "a tensor is written twice: " + tensor->name);
    const int64_t end = begin + bytes_of(*tensor);
    header[tensor->name] = {{"dtype", dtype_name(tensor->dtype)},
                            {"shape", tensor->shape},
                            {"data_offsets", {begin, end}}};
    begin = end;
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  return text;
}

}  // namespace

void write_safetensors(const std::string& path, const std::vector<TensorToWrite>& tensors) {
  std::vector<const TensorToWrite*> order;
  for (const TensorToWrite& tensor : tensors) order.push_back(&tensor);
  std::stable_sort(order.begin(), order.end(), [](const auto* a, const auto* b) {
    return size_of(a->dtype) > size_of(b->dtype);
  });
  const std::string header = make_header(order);
  std::array<std::byte, 8> length;
  for (size_t i = 0; i < 8; ++i) {
    length[i] = static_cast<std::byte>(header.size() >> (8 * i) & 0xFF);
  }
  int64_t total = static_cast<int64_t>(length.size() + header.size());
  for (const TensorToWrite* tensor : order) total += bytes_of(*tensor);

  SyncedFile file(path, total);
  file.write(length);
  file.write(std::as_bytes(std::span(header)));
  std::vector<std::byte> bytes;
  for (const TensorToWrite* tensor : order) {
    bytes.resize(static_cast<size_t>(bytes_of(*tensor)));
    tensor->fill(bytes);
    file.write(bytes);
  }
  file.close();
}

}  // namespace verlcpp::model
