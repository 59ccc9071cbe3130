#include "rig.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "base/rng.h"
#include "cpu/cpu_backend.h"
#include "cuda/runtime.h"
#include "parallel/thread_ranks.h"

namespace verlcpp::bench {
namespace {

constexpr int64_t kPeriod = (int64_t{1} << 18) + 7;

Tensor pattern_of(Backend& backend, DType dtype, int64_t wanted, uint64_t seed, double scale) {
  const PhiloxKey key = rng_key(seed, RngPurpose::kWeightInit);
  std::vector<double> values(static_cast<size_t>(std::min(wanted, kPeriod)));
  for (size_t i = 0; i < values.size(); ++i) values[i] = scale * normal(key, 0, i);
  return upload_as(backend, dtype, values, {static_cast<int64_t>(values.size())},
                   MemoryTag::kWorkspace);
}

void fill(Backend& backend, const Tensor& flat, const Tensor& pattern) {
  for (int64_t first = 0; first < flat.numel(); first += pattern.numel()) {
    const int64_t count = std::min(pattern.numel(), flat.numel() - first);
    backend.copy(flat.slice(first, {count}), pattern.slice(0, {count}));
  }
}

int64_t tokens_of(const Options& options) {
  return std::accumulate(options.lengths.begin(), options.lengths.end(), int64_t{0});
}

}  // namespace

std::unique_ptr<Backend> make_backend(const Options& options) {
  if (options.device == "cpu") return std::make_unique<cpu::CpuBackend>();
  return cuda::make_backend(0);
}

Tensor random_tensor(Backend& backend, DType dtype, Shape shape, uint64_t seed, double scale,
                     MemoryTag tag) {
  const Tensor x = backend.allocate(dtype, std::move(shape), tag);
  fill(backend, x.view({x.numel()}), pattern_of(backend, dtype, x.numel(), seed, scale));
  return x;
}

void random_weights(Backend& backend, const model::ParameterBuffer& weights, uint64_t seed) {
  const DType dtype = weights.flat().dtype();
  const Tensor pattern = pattern_of(backend, dtype, kPeriod, seed, 0.02);
  for (const model::ParamSpec& spec : weights.layout().specs()) {
    const Tensor flat = weights.slice(spec.range());
    if (!spec.name.ends_with("norm.weight")) {
      fill(backend, flat, pattern);
      continue;
    }
    const std::vector<double> ones(static_cast<size_t>(flat.numel()), 1.0);
    backend.copy(flat, upload_as(backend, dtype, ones, flat.shape(), MemoryTag::kWorkspace));
  }
}

std::vector<data::Trajectory> random_documents(const Options& options) {
  const PhiloxKey key = rng_key(7, RngPurpose::kSampling);
  std::vector<data::Trajectory> documents;
  for (const int64_t length : options.lengths) {
    data::Trajectory& t = documents.emplace_back();
    t.uid = "document " + std::to_string(documents.size());
    const auto wanted = static_cast<int64_t>(options.prompt_fraction * static_cast<double>(length));
    const int64_t prompt = std::clamp(wanted, int64_t{1}, length - 1);
    for (int64_t i = 0; i < length; ++i) {
      const uint32_t word = philox4x32(
          {static_cast<uint32_t>(documents.size()), static_cast<uint32_t>(i), 0, 0}, key)[0];
      (i < prompt ? t.prompt_ids : t.response_ids)
          .push_back(static_cast<int32_t>(word % static_cast<uint64_t>(options.model.vocab)));
    }
    t.response_mask.assign(t.response_ids.size(), 1);
  }
  return documents;
}

int64_t head_rows(std::span<const data::Trajectory> documents) {
  int64_t rows = 0;
  for (const data::Trajectory& t : documents) rows += t.response_length();
  return rows;
}

void with_engine(const Options& options, const std::function<void(const train::Engine&)>& body) {
  parallel::run_thread_ranks({.world = 1}, [&](const parallel::Topology& topology,
                                               parallel::RankCommunicators comm) {
    const parallel::RankDevice device =
        options.device == "cpu" ? parallel::host_device(std::make_unique<cpu::CpuBackend>(), comm)
                                : cuda::make_device(topology, comm, 1);
    const model::Transformer transformer(*device.backend, options.model, options.dtype, nullptr,
                                         {.fused_head = options.fused_head});
    body({*device.backend, transformer, topology, device.comm,
          std::vector(static_cast<size_t>(options.model.layers), options.recompute)});
  });
}

train::Planner planner_of(const Options& options) {
  const int64_t longest = *std::max_element(options.lengths.begin(), options.lengths.end());
  const int64_t budget =
      options.micro_batch_tokens > 0 ? options.micro_batch_tokens : tokens_of(options);
  if (budget < longest) {
    throw ConfigError("--micro-batch-tokens=" + std::to_string(budget) +
                      ": the longest document has " + std::to_string(longest));
  }
  return train::make_planner({.sizes = {.world = 1},
                              .dcp = {},
                              .use_dynamic_bsz = true,
                              .micro_batch_size_per_gpu = 1,
                              .max_token_len_per_gpu = budget});
}

}  // namespace verlcpp::bench
