#include "model/parameters.h"

#include <algorithm>
#include <span>
#include <string_view>
#include <thread>
#include <utility>

#include "base/error.h"
#include "base/rng.h"

namespace verlcpp::model {
namespace {

// 256 bytes in the narrowest storage dtype (2 bytes), so a multiple of 256 bytes in every dtype.
constexpr int64_t kAlignment = 128;

// Hugging Face's default `initializer_range`.
constexpr double kInitializerRange = 0.02;

// Host memory of `initialize` at one time: 8 MiB of doubles.
constexpr int64_t kInitializeChunk = int64_t{1} << 20;

// Elements that are worth a thread.
constexpr size_t kInitializePart = size_t{1} << 15;

int64_t round_up(int64_t value, int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

/// How a piece is cut along one axis: this rank's extent of it.
struct Cut {
  size_t dim = 0;
  int64_t first = 0, count = 0;
};

/// Builds the specs of one TP rank.
class Builder {
 public:
  Builder(const ModelConfig& config, const TpPlace& tp)
      : config_(config), tp_(tp), shard_(tp_shard(config, tp)) {}

  /// All tensors in the order in which backward finishes their gradients.
  std::vector<ParamSpec> specs() const {
    std::vector<ParamSpec> specs;
    if (!config_.tied_embeddings) specs.push_back(vocabulary("lm_head.weight", "lm_head.weight"));
    specs.push_back(final_norm());
    for (int64_t index = config_.layers - 1; index >= 0; --index) {
      for (ParamSpec& spec : layer(index)) specs.push_back(std::move(spec));
    }
    specs.push_back(vocabulary("embed_tokens.weight", "model.embed_tokens.weight"));
    return specs;
  }

 private:
  ParamSpec vocabulary(const std::string& name, const std::string& hf_name) const {
    return stacked(name, {sharded(hf_name, {config_.vocab, config_.hidden},
                                  {0, shard_.first_token, shard_.vocab})});
  }

  ParamSpec final_norm() const {
    return stacked("norm.weight", {same("model.norm.weight", config_.hidden, TpKind::kReplicated)});
  }

  /// One layer's tensors in that order.
  std::vector<ParamSpec> layer(int64_t index) const {
    const std::string ours = "layers." + std::to_string(index) + ".";
    const std::string hf = "model." + ours;
    const int64_t hidden = config_.hidden, head_dim = config_.head_dim;
    const Cut ffn{0, shard_.first_ffn, shard_.ffn};
    const Cut heads{1, shard_.first_head * head_dim, shard_.heads * head_dim};
    const TpKind norm = tp_.sequence_parallel ? TpKind::kPartial : TpKind::kReplicated;
    std::vector<ParamSpec> specs;
    specs.push_back(stacked(ours + "down_proj.weight",
                            {sharded(hf + "mlp.down_proj.weight", {hidden, config_.ffn},
                                     {1, shard_.first_ffn, shard_.ffn})}));
    specs.push_back(stacked(ours + "gate_up_proj.weight",
                            {sharded(hf + "mlp.gate_proj.weight", {config_.ffn, hidden}, ffn),
                             sharded(hf + "mlp.up_proj.weight", {config_.ffn, hidden}, ffn)}));
    specs.push_back(stacked(ours + "post_attention_layernorm.weight",
                            {same(hf + "post_attention_layernorm.weight", hidden, norm)}));
    specs.push_back(stacked(
        ours + "o_proj.weight",
        {sharded(hf + "self_attn.o_proj.weight", {hidden, config_.heads * head_dim}, heads)}));
    if (config_.qk_norm) {
      for (const std::string name : {"q_norm.weight", "k_norm.weight"}) {
        specs.push_back(
            stacked(ours + name, {same(hf + "self_attn." + name, head_dim, TpKind::kPartial)}));
      }
    }
    if (config_.qkv_bias) specs.push_back(qkv(ours, hf, "bias"));
    specs.push_back(qkv(ours, hf, "weight"));
    specs.push_back(stacked(ours + "input_layernorm.weight",
                            {same(hf + "input_layernorm.weight", hidden, norm)}));
    return specs;
  }

  static HfPiece sharded(std::string hf_name, Shape shape, const Cut& cut) {
    HfPiece piece{.hf_name = std::move(hf_name), .shape = shape, .local = shape};
    piece.local.at(cut.dim) = cut.count;
    piece.shard_dim = cut.dim;
    piece.first = cut.first;
    piece.kind = TpKind::kSharded;
    return piece;
  }

  HfPiece same(std::string hf_name, int64_t width, TpKind kind) const {
    if (tp_.size == 1) kind = TpKind::kReplicated;
    return {.hf_name = std::move(hf_name),
            .shape = {width},
            .local = {width},
            .kind = kind,
            .owned = tp_.rank == 0};
  }

  HfPiece kv(std::string hf_name, Shape shape) const {
    const int64_t head_dim = config_.head_dim;
    HfPiece piece = sharded(std::move(hf_name), std::move(shape),
                            {0, shard_.first_kv_head * head_dim, shard_.kv_heads * head_dim});
    if (shard_.kv_replicas == 1) return piece;
    piece.kind = TpKind::kKvReplicated;
    piece.owned = tp_.rank % shard_.kv_replicas == 0;
    return piece;
  }

  ParamSpec qkv(const std::string& ours, const std::string& hf, const std::string& kind) const {
    const int64_t head_dim = config_.head_dim;
    const auto shape = [&](int64_t heads) {
      return kind == "bias" ? Shape{heads * head_dim} : Shape{heads * head_dim, config_.hidden};
    };
    return stacked(ours + "qkv_proj." + kind,
                   {sharded(hf + "self_attn.q_proj." + kind, shape(config_.heads),
                            {0, shard_.first_head * head_dim, shard_.heads * head_dim}),
                    kv(hf + "self_attn.k_proj." + kind, shape(config_.kv_heads)),
                    kv(hf + "self_attn.v_proj." + kind, shape(config_.kv_heads))});
  }

  /// `pieces` one below the other.
  static ParamSpec stacked(std::string name, std::vector<HfPiece> pieces) {
    ParamSpec spec;
    spec.name = std::move(name);
    spec.shape = pieces.front().local;
    spec.shape[0] = 0;
    for (HfPiece& piece : pieces) {
      piece.row = spec.shape[0];
      spec.shape[0] += piece.local[0];
    }
    spec.decay = spec.shape.size() > 1;
    spec.pieces = std::move(pieces);
    return spec;
  }

  const ModelConfig& config_;
  TpPlace tp_;
  TpShard shard_;
};

// FNV-1a, 64 bits (Fowler, Noll, Vo): a name's random stream.
uint64_t fnv1a(std::string_view text) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : text) {
    hash ^= static_cast<unsigned char>(c);
    hash *= 0x100000001b3u;
  }
  return hash;
}

/// Values of elements [first, first + count) of a Hugging Face tensor.
void initial_values(const HfPiece& piece, PhiloxKey key, int64_t first, std::span<double> values) {
  if (piece.shape.size() == 1) {
    std::fill(values.begin(), values.end(), piece.hf_name.ends_with(".bias") ? 0.0 : 1.0);
    return;
  }
  const uint64_t stream = fnv1a(piece.hf_name);
  const auto fill = [&](size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) {
      values[i] = kInitializerRange * normal(key, stream, static_cast<uint64_t>(first) + i);
    }
  };
  // On all cores: one takes half a minute for half a billion elements.
  const size_t most = std::max(1u, std::thread::hardware_concurrency());
  const size_t parts = std::clamp<size_t>(values.size() / kInitializePart, 1, most);
  std::vector<std::jthread> threads;
  for (size_t p = 1; p < parts; ++p) {
    threads.emplace_back(fill, values.size() * p / parts, values.size() * (p + 1) / parts);
  }
  fill(0, values.size() / parts);
}

}  // namespace

FlatRange intersection(const FlatRange& a, const FlatRange& b) {
  const int64_t first = std::max(a.first, b.first);
  return {first, std::max<int64_t>(0, std::min(a.end(), b.end()) - first)};
}

FlatRange ParamSpec::range_of(const HfPiece& piece) const {
  const int64_t row_size = shape[0] == 0 ? 0 : numel_of(shape) / shape[0];
  return {offset + piece.row * row_size, numel_of(piece.local)};
}

std::vector<Run> runs_of(const ParamSpec& spec, const HfPiece& piece, const FlatRange& within) {
  const FlatRange all = spec.range_of(piece);
  const FlatRange wanted = intersection(all, within);
  std::vector<Run> runs;
  // Cut along the first axis (or not at all) the piece is one run of the global tensor; cut along
  // the second, one per row.
  const bool by_row = piece.shard_dim == 1;
  const int64_t length = by_row ? piece.local[1] : all.count;
  const int64_t stride = by_row ? piece.shape[1] : 0;
  const int64_t row_size = piece.shape.size() == 1 ? 1 : piece.shape[1];
  const int64_t begin = by_row ? piece.first : piece.first * row_size;
  for (int64_t at = wanted.first; at < wanted.end();) {
    const int64_t row = (at - all.first) / length, column = (at - all.first) % length;
    const int64_t count = std::min(length - column, wanted.end() - at);
    runs.push_back({at, begin + row * stride + column, count});
    at += count;
  }
  return runs;
}

ParameterLayout::ParameterLayout(const ModelConfig& config, int64_t pool, const TpPlace& tp)
    : pool_(pool), kv_replicas_(tp_shard(config, tp).kv_replicas) {
  expects(pool >= 1, "a parameter layout needs a pool of at least one rank");
  std::vector<ParamSpec> specs = Builder(config, tp).specs();
  const auto vectors = std::stable_partition(specs.begin(), specs.end(),
                                             [](const ParamSpec& spec) { return spec.decay; });
  for (auto spec = specs.begin(); spec != specs.end(); ++spec) {
    if (spec == vectors) decayed_ = round_up(numel_, kAlignment);
    append(std::move(*spec));
  }
  numel_ = round_up(numel_, pool * kAlignment);
}

void ParameterLayout::append(ParamSpec spec) {
  spec.offset = round_up(numel_, kAlignment);
  numel_ = spec.range().end();
  expects(index_.emplace(spec.name, specs_.size()).second, "a parameter name appears twice");
  specs_.push_back(std::move(spec));
}

FlatRange ParameterLayout::share(int64_t pool_rank) const {
  const int64_t count = numel_ / pool_;
  return {pool_rank * count, count};
}

const ParamSpec& ParameterLayout::spec(const std::string& name) const {
  const auto found = index_.find(name);
  expects(found != index_.end(), "no parameter is named " + name);
  return specs_[found->second];
}

std::vector<FlatRange> ParameterLayout::owned(const FlatRange& within) const {
  std::vector<FlatRange> ranges;
  bool goes_on = false;  // the last element before this piece was owned, or padding behind it
  for (const ParamSpec& spec : specs_) {
    for (const HfPiece& piece : spec.pieces) {
      const FlatRange part = intersection(spec.range_of(piece), within);
      if (part.count == 0) continue;
      if (piece.owned && goes_on) {
        ranges.back().count = part.end() - ranges.back().first;
      } else if (piece.owned) {
        ranges.push_back(part);
      }
      goes_on = piece.owned;
    }
  }
  return ranges;
}

ParameterBuffer::ParameterBuffer(Backend& backend, const ParameterLayout& layout, DType dtype,
                                 MemoryTag tag)
    : ParameterBuffer(backend, layout, dtype, tag, layout.whole()) {}

ParameterBuffer::ParameterBuffer(Backend& backend, const ParameterLayout& layout, DType dtype,
                                 MemoryTag tag, const FlatRange& range)
    : layout_(&layout), range_(range), flat_(backend.allocate(dtype, {range.count}, tag)) {
  backend.fill_zero(flat_);
}

Tensor ParameterBuffer::slice(const FlatRange& part) const {
  expects(part.first >= range_.first && part.end() <= range_.end(),
          "elements outside of a buffer's range");
  return flat_.slice(part.first - range_.first, {part.count});
}

Tensor ParameterBuffer::at(const std::string& name) const {
  const ParamSpec& spec = layout_->spec(name);
  return slice(spec.range()).view(spec.shape);
}

void initialize(Backend& backend, const ParameterBuffer& weights, uint64_t seed,
                const std::function<void()>& beat) {
  const PhiloxKey key = rng_key(seed, RngPurpose::kWeightInit);
  std::vector<double> values;
  for (const ParamSpec& spec : weights.layout().specs()) {
    for (const HfPiece& piece : spec.pieces) {
      const FlatRange all = intersection(spec.range_of(piece), weights.range());
      for (int64_t first = all.first; first < all.end(); first += kInitializeChunk) {
        if (beat) beat();
        const FlatRange chunk{first, std::min(kInitializeChunk, all.end() - first)};
        values.resize(static_cast<size_t>(chunk.count));
        for (const Run& run : runs_of(spec, piece, chunk)) {
          initial_values(piece, key, run.global,
                         std::span(values).subspan(static_cast<size_t>(run.flat - first),
                                                   static_cast<size_t>(run.count)));
        }
        backend.copy(weights.slice(chunk), upload_as(backend, DType::kFloat64, values,
                                                     {chunk.count}, MemoryTag::kWorkspace));
      }
    }
  }
}

}  // namespace verlcpp::model
