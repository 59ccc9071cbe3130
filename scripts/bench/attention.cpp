// Packed causal attention of one rank: what a layer calls, without its projections.

#include <cmath>

#include "rig.h"
#include "roofline.h"

namespace verlcpp::bench {
namespace {

data::PackedBatch packed(const Options& options) {
  std::vector<std::vector<int32_t>> tokens;
  schedule::PlanGroup group{.ranks = {0}, .samples = {}};
  for (const int64_t length : options.lengths) {
    group.samples.push_back(static_cast<int>(tokens.size()));
    tokens.emplace_back(static_cast<size_t>(length), 0);
  }
  return data::pack(group, 0, 1, tokens);
}

}  // namespace

std::vector<Row> run_attention(const Options& options) {
  const auto backend = make_backend(options);
  const model::ModelConfig& c = options.model;
  const data::PackedBatch batch = packed(options);
  const model::ContextParallelAttention attention(*backend, nullptr);
  const model::AttentionPlan plan = attention.plan(batch, {.ranks = {0}, .index = 0});
  uint64_t seed = 0;
  const auto random = [&](int64_t heads) {
    return random_tensor(*backend, options.dtype, {batch.rows(), heads, c.head_dim}, ++seed, 1,
                         MemoryTag::kWorkspace);
  };
  const Tensor q = random(c.heads), k = random(c.kv_heads), v = random(c.kv_heads);
  const Tensor o = random(c.heads), d_o = random(c.heads);
  const Tensor d_q = random(c.heads), d_k = random(c.kv_heads), d_v = random(c.kv_heads);
  const Tensor lse = backend->allocate(model::statistics_dtype(options.dtype),
                                       {batch.rows(), c.heads}, MemoryTag::kWorkspace);
  const double scale = 1 / std::sqrt(static_cast<double>(c.head_dim));
  const double flops = attention_flops(c.heads, c.head_dim, options.lengths);
  const std::string heads =
      std::to_string(c.heads) + "/" + std::to_string(c.kv_heads) + "/" + std::to_string(c.head_dim);

  std::vector<Row> rows;
  const auto add = [&](const std::string& name, double work, const std::function<void()>& body) {
    if (name.find(options.filter) == std::string::npos) return;
    rows.push_back({.name = name,
                    .seconds = measure(*backend, options, false, body),
                    .bound = Bound::kMatmul,
                    .flops = work,
                    .tokens = batch.rows()});
  };
  attention.forward(plan, scale, q, k, v, o, lse);  // the backward needs its o and lse
  add("attention " + heads + " forward", flops,
      [&] { attention.forward(plan, scale, q, k, v, o, lse); });
  add("attention " + heads + " backward", kAttentionBackward * flops,
      [&] { attention.backward(plan, scale, q, k, v, o, lse, d_o, d_q, d_k, d_v); });
  return rows;
}

}  // namespace verlcpp::bench
