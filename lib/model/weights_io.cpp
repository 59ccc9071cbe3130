#include "model/weights_io.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <set>

#include "base/error.h"
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
  std::vector<std::string> complaints, missing;  // what is there but wrong says more
  for (const ParamSpec& spec : layout.specs()) {
    for (const HfPiece& piece : spec.pieces) {
      const std::string name = piece.hf_name + suffix;
      const StoredTensor* stored = reader.find(name);
      const std::string what = complaint(stored, name, piece);
      if (!what.empty()) (stored ? complaints : missing).push_back(what);
    }
  }
  complaints.insert(complaints.end(), missing.begin(), missing.end());
  if (!complaints.empty()) throw DataError(reader.path() + ": " + join(complaints, "; "));
}

/// "" when the model uses all of the tensors.
std::string unused_tensors(const SafetensorsReader& reader, const ParameterLayout& layout) {
  std::set<std::string> expected;
  for (const ParamSpec& spec : layout.specs()) {
    for (const HfPiece& piece : spec.pieces) expected.insert(piece.hf_name);
  }
  std::vector<std::string> unexpected;
  for (const std::string& name : reader.names()) {
    if (!expected.contains(name)) unexpected.push_back(name);
  }
  if (unexpected.empty()) return "";
  return reader.path() + ": tensors not used by this model: " + join(unexpected, ", ");
}

/// Files of models with tied embeddings may hold them twice.
void expect_tied(const SafetensorsReader& reader, const ParameterLayout& layout) {
  const auto& specs = layout.specs();
  const bool tied = std::none_of(specs.begin(), specs.end(), [](const ParamSpec& spec) {
    return spec.name == "lm_head.weight";
  });
  const StoredTensor* head = reader.find("lm_head.weight");
  const StoredTensor* embedding = reader.find("model.embed_tokens.weight");
  if (!tied || head == nullptr || embedding == nullptr) return;
  if (head->dtype == embedding->dtype &&
      std::equal(head->bytes.begin(), head->bytes.end(), embedding->bytes.begin(),
                 embedding->bytes.end())) {
    return;
  }
  throw DataError(reader.path() +
                  ": lm_head.weight differs from model.embed_tokens.weight, but config.json has "
                  "tie_word_embeddings: true; valid: equal ones, or false");
}

/// Elements read at one time: bounds what is copied on the way, and how long a sign of life takes.
constexpr int64_t kReadAtOnce = int64_t{1} << 22;

/// The part of a stored tensor that belongs to flat elements `part`, in its stored dtype: in the
/// file itself where it lies together there, else copied to `gathered`.
std::span<const std::byte> stored_part(const StoredTensor& stored, const ParamSpec& spec,
                                       const HfPiece& piece, const FlatRange& part,
                                       std::vector<std::byte>& gathered) {
  const auto size = static_cast<size_t>(size_of(stored.dtype));
  const auto in_file = [&](const Run& run) {
    return stored.bytes.subspan(static_cast<size_t>(run.global) * size,
                                static_cast<size_t>(run.count) * size);
  };
  const std::vector<Run> runs = runs_of(spec, piece, part);
  if (runs.size() == 1 && runs[0].count == part.count) return in_file(runs[0]);
  gathered.resize(static_cast<size_t>(part.count) * size);
  for (const Run& run : runs) {
    const auto from = in_file(run);
    std::memcpy(gathered.data() + static_cast<size_t>(run.flat - part.first) * size, from.data(),
                from.size());
  }
  return gathered;
}

/// Calls `body(spec, piece, part)` for every part of a piece within `range`.
template <class Body>
void for_each_part(const ParameterLayout& layout, const FlatRange& range, Body body) {
  for (const ParamSpec& spec : layout.specs()) {
    for (const HfPiece& piece : spec.pieces) {
      const FlatRange part = intersection(spec.range_of(piece), range);
      if (part.count > 0) body(spec, piece, part);
    }
  }
}

/// Elements of a buffer on the host, stored as `dtype`.
std::vector<std::byte> read_as(Backend& backend, const Tensor& x, DType dtype) {
  Tensor stored = x;
  if (dtype != x.dtype()) {
    stored = backend.allocate(dtype, x.shape(), MemoryTag::kWorkspace);
    backend.copy(stored, x);
  }
  std::vector<std::byte> bytes(static_cast<size_t>(stored.bytes()));
  backend.read(bytes, stored);
  return bytes;
}

/// Elements `window` of all tensors laid end to end at `places`: those that this rank owns, zeros
/// elsewhere.
std::vector<double> window_of(Backend& backend, const ParameterBuffer& buffer,
                              const FlatRange& share,
                              const std::map<std::string, FlatRange>& places,
                              const FlatRange& window) {
  std::vector<double> out(static_cast<size_t>(window.count));
  for_each_part(
      buffer.layout(), share, [&](const auto& spec, const auto& piece, const FlatRange& part) {
        const FlatRange& place = places.at(piece.hf_name);
        if (!piece.owned || intersection(place, window).count <= 0) return;
        for (const Run& run : runs_of(spec, piece, part)) {
          const int64_t begin = place.first + run.global;
          const FlatRange here = intersection({begin, run.count}, window);
          if (here.count <= 0) continue;
          const std::vector<double> values =
              download(backend, buffer.slice({run.flat + here.first - begin, here.count}));
          std::copy(values.begin(), values.end(), out.begin() + (here.first - window.first));
        }
      });
  return out;
}

}  // namespace

void load_hf_tensors(Backend& backend, const SafetensorsReader& reader, const std::string& suffix,
                     const ParameterBuffer& buffer, const std::function<void()>& beat) {
  check_pieces(reader, suffix, buffer.layout());
  std::vector<std::byte> gathered;
  for_each_part(buffer.layout(), buffer.range(),
                [&](const auto& spec, const auto& piece, const FlatRange& part) {
                  const StoredTensor& stored = *reader.find(piece.hf_name + suffix);
                  for (int64_t first = part.first; first < part.end(); first += kReadAtOnce) {
                    if (beat) beat();
                    const FlatRange chunk{first, std::min(kReadAtOnce, part.end() - first)};
                    const auto bytes = stored_part(stored, spec, piece, chunk, gathered);
                    const Tensor target = buffer.slice(chunk);
                    if (stored.dtype == target.dtype()) {
                      backend.write(target, bytes);
                      continue;
                    }
                    const Tensor staged =
                        backend.allocate(stored.dtype, {chunk.count}, MemoryTag::kWorkspace);
                    backend.write(staged, bytes);
                    backend.copy(target, staged);
                  }
                });
}

bool has_weights(const std::string& folder) {
  return fs::is_regular_file(fs::path(folder) / "model.safetensors") ||
         fs::is_regular_file(fs::path(folder) / "model.safetensors.index.json");
}

void check_hf_weights(const std::string& folder, const ModelConfig& model) {
  check_pieces(SafetensorsReader(folder), "", ParameterLayout(model, 1));
}

std::string load_hf_weights(Backend& backend, const std::string& folder,
                            const ParameterBuffer& weights, const std::function<void()>& beat) {
  const SafetensorsReader reader(folder);
  check_pieces(reader, "", weights.layout());
  expect_tied(reader, weights.layout());
  load_hf_tensors(backend, reader, "", weights, beat);
  return unused_tensors(reader, weights.layout());
}

std::vector<TensorEntry> hf_entries(const ParameterLayout& layout, DType dtype,
                                    const std::string& suffix) {
  expects(is_float(dtype), "weights are stored in a floating dtype");
  std::vector<TensorEntry> entries;
  for (const ParamSpec& spec : layout.specs()) {
    for (const HfPiece& piece : spec.pieces) {
      entries.push_back({piece.hf_name + suffix, dtype, piece.shape});
    }
  }
  return entries;
}

void write_hf_share(Backend& backend, const ParameterBuffer& buffer, const FlatRange& share,
                    const std::string& suffix, SafetensorsWriter& file,
                    const std::function<void()>& each_tensor) {
  for_each_part(
      buffer.layout(), share, [&](const auto& spec, const auto& piece, const FlatRange& part) {
        if (!piece.owned) return;
        if (each_tensor) each_tensor();
        const std::string name = piece.hf_name + suffix;
        const DType dtype = file.dtype_of(name);
        const std::vector<std::byte> bytes = read_as(backend, buffer.slice(part), dtype);
        for (const Run& run : runs_of(spec, piece, part)) {
          const auto size = static_cast<size_t>(size_of(dtype));
          file.write(name, run.global,
                     std::span(bytes).subspan(static_cast<size_t>(run.flat - part.first) * size,
                                              static_cast<size_t>(run.count) * size));
        }
      });
}

std::map<std::string, std::vector<double>> gather_hf_tensors(Backend& backend,
                                                             parallel::Communicator& world,
                                                             const ParameterBuffer& buffer,
                                                             const FlatRange& share) {
  // All tensors laid end to end, a piece of them at a time: every rank puts in what it has, zeros
  // elsewhere, and the sum is the whole.
  std::map<std::string, FlatRange> places;
  int64_t total = 0;
  for (const TensorEntry& entry : hf_entries(buffer.layout(), buffer.flat().dtype(), "")) {
    places[entry.name] = {total, numel_of(entry.shape)};
    total += numel_of(entry.shape);
  }
  std::map<std::string, std::vector<double>> all;
  for (int64_t first = 0; first < total; first += kGatheredAtOnce) {
    const FlatRange window{first, std::min(kGatheredAtOnce, total - first)};
    const Tensor sum = upload<double>(backend, window_of(backend, buffer, share, places, window),
                                      {window.count}, MemoryTag::kComm);
    world.all_reduce(sum, parallel::ReduceOp::kSum).wait();
    if (world.rank() != 0) continue;
    const std::vector<double> values = download(backend, sum);
    for (const auto& [name, place] : places) {
      const FlatRange here = intersection(place, window);
      if (here.count <= 0) continue;
      std::vector<double>& tensor = all[name];
      tensor.resize(static_cast<size_t>(place.count));
      std::copy_n(values.begin() + (here.first - window.first), here.count,
                  tensor.begin() + (here.first - place.first));
    }
  }
  return all;
}

}  // namespace verlcpp::model
