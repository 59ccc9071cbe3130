// The safetensors format: eight bytes of header length (little endian), a JSON header
// {"name": {"dtype", "shape", "data_offsets": [begin, end)}, "__metadata__": {...}}, then the data,
// which the tensors cover without holes or overlaps.

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "data/json_reason.h"
#include "data/text_file.h"
#include "model/safetensors_format.h"
#include "model/weights_io.h"

namespace verlcpp::model {

/// A whole file mapped read-only.
class MappedFile {
 public:
  explicit MappedFile(const std::string& path) {
    const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (file < 0) throw DataError(path + ": cannot be opened: " + std::strerror(errno));
    struct stat status {};
    const bool is_file = ::fstat(file, &status) == 0 && S_ISREG(status.st_mode);
    if (is_file && status.st_size > 0) {
      void* data =
          ::mmap(nullptr, static_cast<size_t>(status.st_size), PROT_READ, MAP_PRIVATE, file, 0);
      if (data != MAP_FAILED) {
        bytes_ = {static_cast<const std::byte*>(data), static_cast<size_t>(status.st_size)};
      }
    }
    const int reason = errno;
    ::close(file);
    if (!is_file) throw DataError(path + ": not a file");
    if (status.st_size > 0 && bytes_.empty()) {
      throw DataError(path + ": cannot be mapped: " + std::strerror(reason));
    }
  }
  ~MappedFile() {
    if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
  }
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  std::span<const std::byte> bytes_;
};

namespace {

using Json = nlohmann::json;

[[noreturn]] void fail(const std::string& where, const std::string& what) {
  throw DataError(where + ": " + what);
}

std::string quoted(const std::string& name) { return "tensor \"" + name + "\""; }

/// Header and data of a file; the header's length is checked against the file's.
std::pair<std::string_view, std::span<const std::byte>> split(std::span<const std::byte> file,
                                                              const std::string& path) {
  if (file.size() < 8) {
    fail(path, std::to_string(file.size()) + " bytes; a safetensors file has at least 8");
  }
  uint64_t length = 0;
  for (size_t i = 0; i < 8; ++i) length |= std::to_integer<uint64_t>(file[i]) << (8 * i);
  const std::string_view text(reinterpret_cast<const char*>(file.data()), file.size());
  if (text.starts_with("version https://git-lfs")) {
    fail(path, "a pointer of Git LFS, not the weights; git lfs pull fetches them");
  }
  if (length > file.size() - 8) {
    fail(path, "the header claims " + std::to_string(length) + " bytes of a file of " +
                   std::to_string(file.size()) + "; not a safetensors file, or truncated");
  }
  const size_t header = static_cast<size_t>(length);
  return {{reinterpret_cast<const char*>(file.data()) + 8, header}, file.subspan(8 + header)};
}

Json parse_header(std::string_view text, const std::string& path) {
  std::set<std::string> names;
  bool repeated = false;
  const auto check = [&](int depth, Json::parse_event_t event, Json& value) {
    if (event == Json::parse_event_t::key && depth == 1) {
      repeated = repeated || !names.insert(value.get<std::string>()).second;
    }
    return true;
  };
  const Json header = Json::parse(text, check, false);
  if (!header.is_object()) fail(path, "the header is not a JSON object");
  if (repeated) fail(path, "a tensor is named twice in the header");
  return header;
}

DType parse_dtype(const Json& value, const std::string& where) {
  std::string valid;
  for (const auto& [dtype, name] : kSafetensorsDTypes) {
    if (value == std::string(name)) return dtype;
    valid += (valid.empty() ? "" : ", ") + std::string(name);
  }
  fail(where, "dtype " + value.dump() + "; valid: " + valid);
}

/// A size or offset: a number from 0 to 2^63 - 1.
bool is_size(const Json& value) {
  return value.is_number_unsigned() &&
         value.get<uint64_t>() <= uint64_t{std::numeric_limits<int64_t>::max()};
}

Shape parse_shape(const Json& value, const std::string& where) {
  if (!value.is_array() || !std::all_of(value.begin(), value.end(), is_size)) {
    fail(where, "shape " + value.dump() + "; valid: a list of sizes");
  }
  return value.get<Shape>();
}

/// Bytes of a tensor, or -1 where they do not fit 63 bits.
int64_t byte_count(const Shape& shape, DType dtype) {
  int64_t bytes = size_of(dtype);
  for (const int64_t size : shape) {
    if (__builtin_mul_overflow(bytes, size, &bytes)) return -1;
  }
  return bytes;
}

StoredTensor parse_tensor(const Json& entry, std::span<const std::byte> data,
                          const std::string& where) {
  if (!entry.is_object() || !entry.contains("dtype") || !entry.contains("shape") ||
      !entry.contains("data_offsets")) {
    fail(where, "its header entry lacks dtype, shape or data_offsets");
  }
  StoredTensor tensor;
  tensor.dtype = parse_dtype(entry["dtype"], where);
  tensor.shape = parse_shape(entry["shape"], where);
  const Json& offsets = entry["data_offsets"];
  if (!offsets.is_array() || offsets.size() != 2 || !is_size(offsets[0]) || !is_size(offsets[1])) {
    fail(where, "data_offsets " + offsets.dump() + "; valid: [begin, end]");
  }
  const auto begin = offsets[0].get<size_t>(), end = offsets[1].get<size_t>();
  if (begin > end || end > data.size()) {
    fail(where, "data_offsets " + offsets.dump() + " outside the file's " +
                    std::to_string(data.size()) + " bytes of data; truncated?");
  }
  if (byte_count(tensor.shape, tensor.dtype) != static_cast<int64_t>(end - begin)) {
    fail(where, "data_offsets " + offsets.dump() + " hold " + std::to_string(end - begin) +
                    " bytes, which is not the size of shape " + to_string(tensor.shape) + " in " +
                    std::string(name_of(tensor.dtype)));
  }
  tensor.bytes = data.subspan(begin, end - begin);
  return tensor;
}

/// The tensors must tile the data.
void check_tiling(const std::map<std::string, StoredTensor>& tensors,
                  std::span<const std::byte> data, const std::string& path) {
  std::vector<std::pair<const std::byte*, const std::string*>> order;
  for (const auto& [name, tensor] : tensors) {
    if (!tensor.bytes.empty()) order.emplace_back(tensor.bytes.data(), &name);
  }
  std::sort(order.begin(), order.end());
  const std::byte* expected = data.data();
  for (const auto& [begin, name] : order) {
    if (begin < expected) fail(path + ": " + quoted(*name), "overlaps another tensor");
    if (begin > expected) fail(path + ": " + quoted(*name), "begins after a hole in the data");
    expected = begin + tensors.at(*name).bytes.size();
  }
  const auto rest = data.data() + data.size() - expected;
  if (rest != 0) fail(path, std::to_string(rest) + " bytes of data belong to no tensor");
}

}  // namespace

SafetensorsReader::SafetensorsReader(const std::string& path) : path_(path) {
  namespace fs = std::filesystem;
  if (!fs::exists(path)) fail(path, "does not exist");
  if (!fs::is_directory(path)) {
    tensors_ = map_file(path);
    return;
  }
  path_ = path + "/model.safetensors";
  if (fs::exists(path_)) {
    tensors_ = map_file(path_);
    return;
  }
  path_ = path + "/model.safetensors.index.json";
  if (!fs::exists(path_)) {
    fail(path, "holds neither model.safetensors nor model.safetensors.index.json");
  }
  map_index(path);
}

SafetensorsReader::~SafetensorsReader() = default;

SafetensorsReader::Tensors SafetensorsReader::map_file(const std::string& path) {
  mappings_.push_back(std::make_unique<MappedFile>(path));
  const auto [text, data] = split(mappings_.back()->bytes(), path);
  const Json header = parse_header(text, path);
  Tensors tensors;
  for (const auto& [name, entry] : header.items()) {
    if (name == "__metadata__") continue;
    tensors.emplace(name, parse_tensor(entry, data, path + ": " + quoted(name)));
  }
  check_tiling(tensors, data, path);
  return tensors;
}

void SafetensorsReader::map_index(const std::string& folder) {
  Json index;
  try {
    index = Json::parse(data::read_text_file(path_));
  } catch (const Json::exception& error) {
    fail(path_, "not JSON: " + data::json_reason(error.what(), false));
  }
  if (!index.is_object() || !index.contains("weight_map") || !index["weight_map"].is_object()) {
    fail(path_, R"(has no weight_map object; valid: {"weight_map": {TENSOR: FILE, ...}})");
  }
  std::map<std::string, Tensors> shards;
  for (const auto& [name, shard] : index["weight_map"].items()) {
    const std::string file = shard.is_string() ? shard.get<std::string>() : "";
    if (file.empty() || file.find('/') != std::string::npos) {
      fail(path_ + ": " + quoted(name), "file " + shard.dump() + "; valid: a name in this folder");
    }
    if (!std::filesystem::exists(folder + "/" + file)) {
      fail(path_ + ": " + quoted(name), "file " + shard.dump() + " is not in this folder");
    }
    if (!shards.contains(file)) shards.emplace(file, map_file(folder + "/" + file));
    const auto found = shards[file].find(name);
    if (found == shards[file].end()) {
      fail(path_ + ": " + quoted(name), "is not in " + file + " as the index says");
    }
    tensors_.insert(*found);
  }
}

const StoredTensor* SafetensorsReader::find(const std::string& name) const {
  const auto found = tensors_.find(name);
  return found == tensors_.end() ? nullptr : &found->second;
}

std::vector<std::string> SafetensorsReader::names() const {
  std::vector<std::string> out;
  for (const auto& [name, tensor] : tensors_) out.push_back(name);
  return out;
}

}  // namespace verlcpp::model
