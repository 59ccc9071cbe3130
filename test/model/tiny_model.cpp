#include "model/tiny_model.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/rng.h"
#include "cpu/cpu_backend.h"
#include "parallel/thread_ranks.h"

namespace verlcpp::test {
namespace {

constexpr PhiloxKey kKey{20240607, 0};

double random_value(uint64_t stream, uint64_t index) { return normal(kKey, stream, index); }

}  // namespace

model::ModelConfig tiny_config(const std::string& kind) {
  model::ModelConfig config;
  config.architecture = kind == "qwen2"   ? "Qwen2ForCausalLM"
                        : kind == "qwen3" ? "Qwen3ForCausalLM"
                                          : "LlamaForCausalLM";
  config.vocab = 13;
  config.hidden = 10;
  config.ffn = 14;
  config.layers = 2;
  config.heads = 4;
  config.kv_heads = 2;
  config.head_dim = 6;
  config.rope.theta = 100;
  config.qkv_bias = kind == "qwen2";
  config.qk_norm = kind == "qwen3";
  config.tied_embeddings = kind != "llama";
  config.max_positions = 256;
  return config;
}

Documents random_documents(const model::ModelConfig& config, const std::vector<int64_t>& lengths) {
  Documents documents;
  for (size_t s = 0; s < lengths.size(); ++s) {
    std::vector<int32_t> tokens;
    for (int64_t i = 0; i < lengths[s]; ++i) {
      const auto words =
          philox4x32({static_cast<uint32_t>(i), static_cast<uint32_t>(s), 1, 0}, kKey);
      tokens.push_back(static_cast<int32_t>(words[0] % static_cast<uint32_t>(config.vocab)));
    }
    documents.push_back(std::move(tokens));
  }
  return documents;
}

std::vector<double> random_weights(const model::ParameterLayout& layout) {
  std::vector<double> values(static_cast<size_t>(layout.numel()));
  for (size_t s = 0; s < layout.specs().size(); ++s) {
    const model::ParamSpec& spec = layout.specs()[s];
    const double mean = spec.name.ends_with("norm.weight") ? 1.0 : 0.0;
    for (int64_t i = 0; i < numel_of(spec.shape); ++i) {
      values[static_cast<size_t>(spec.offset + i)] =
          mean + 0.3 * random_value(100 + s, static_cast<uint64_t>(i));
    }
  }
  return values;
}

void set_flat(Backend& backend, const model::ParameterBuffer& buffer,
              const std::vector<double>& values) {
  backend.copy(buffer.flat(),
               upload_as(backend, DType::kFloat64, values, {static_cast<int64_t>(values.size())},
                         MemoryTag::kWorkspace));
}

schedule::PlanGroup whole_group(int cp, const Documents& documents) {
  schedule::PlanGroup group;
  for (int rank = 0; rank < cp; ++rank) group.ranks.push_back(rank);
  for (size_t s = 0; s < documents.size(); ++s) group.samples.push_back(static_cast<int>(s));
  return group;
}

RankBatch::RankBatch(const model::Transformer& transformer, const schedule::PlanGroup& group,
                     int rank, int64_t tp, const Documents& documents)
    : batch_(data::pack(group, rank, tp, documents)) {
  std::vector<int32_t> head_rows;
  std::vector<double> temperature;
  for (size_t row = 0; row < batch_.token_ids.size(); ++row) {
    temperature.push_back(0.7 + 0.1 * (batch_.position[row] % 3));
    if (batch_.document[row] < 0) continue;
    const auto document = static_cast<size_t>(batch_.document[row]);
    const int32_t position = batch_.position[row];
    if (position + 1 >= batch_.lengths[document] || position % 5 == 3) continue;
    head_rows.push_back(static_cast<int32_t>(row));
    const auto sample = static_cast<uint64_t>(batch_.sample_ids[document]);
    log_prob_weights_.push_back(random_value(2000 + sample, static_cast<uint64_t>(position)));
    entropy_weights_.push_back(random_value(3000 + sample, static_cast<uint64_t>(position)));
  }
  const auto me = std::find(group.ranks.begin(), group.ranks.end(), rank);
  const parallel::CpGroup cp{group.ranks, static_cast<int>(me - group.ranks.begin())};
  device_ = transformer.upload(batch_, cp, head_rows, temperature);
}

double RankBatch::loss(Backend& backend, const model::TokenOutputs& outputs) const {
  const std::vector<double> log_prob = download(backend, outputs.log_prob_R);
  const std::vector<double> entropy = download(backend, outputs.entropy_R);
  double sum = 0;
  for (size_t r = 0; r < log_prob.size(); ++r) {
    sum += log_prob_weights_[r] * log_prob[r] + entropy_weights_[r] * entropy[r];
  }
  return sum;
}

model::TokenLoss RankBatch::token_loss(Backend& backend, TokenRecord* record) const {
  return linear_loss(backend, log_prob_weights_, entropy_weights_, record);
}

void RankBatch::store(const std::vector<double>& local, TokenValues& values) const {
  for (size_t r = 0; r < local.size(); ++r) {
    const auto row = static_cast<size_t>(device_.head_rows_host[r]);
    const auto document = static_cast<size_t>(batch_.document[row]);
    values[static_cast<size_t>(batch_.sample_ids[document])]
          [static_cast<size_t>(batch_.position[row])] = local[r];
  }
}

TokenValues no_values(const Documents& documents) {
  TokenValues values;
  for (const auto& document : documents) {
    values.emplace_back(document.size(), std::numeric_limits<double>::quiet_NaN());
  }
  return values;
}

RunResult run_plan(const model::ModelConfig& config, const schedule::Plan& plan, int64_t tp,
                   const Documents& documents, DType dtype,
                   const model::TransformerOptions& options) {
  RunResult result{no_values(documents), no_values(documents), {}};
  parallel::run_thread_ranks(
      {.world = plan.pool}, [&](const parallel::Topology& me, parallel::RankCommunicators comms) {
        const auto rank = static_cast<int>(me.rank());
        cpu::CpuBackend backend;
        const model::ParameterLayout layout(config, 1);
        const model::ParameterBuffer weights(backend, layout, dtype, MemoryTag::kWeights);
        const model::ParameterBuffer grad(backend, layout, dtype, MemoryTag::kMainGrad);
        set_flat(backend, weights, random_weights(layout));
        const model::Transformer transformer(backend, config, dtype, nullptr, options);
        const model::ContextParallelAttention attention(backend, &comms.cp);
        for (const schedule::MicroBatch& micro_batch : plan.micro_batches) {
          for (const schedule::PlanGroup& group : micro_batch.groups) {
            if (std::find(group.ranks.begin(), group.ranks.end(), rank) == group.ranks.end())
              continue;
            const RankBatch batch(transformer, group, rank, tp, documents);
            TokenRecord trained;
            transformer.train(weights, batch.device(), attention, {},
                              batch.token_loss(backend, &trained), grad);
            batch.store(trained.log_prob, result.log_probs);
            batch.store(trained.entropy, result.entropies);
          }
        }
        comms.grad.all_reduce(grad.flat(), parallel::ReduceOp::kSum).wait();
        if (rank == 0) result.gradient = download(backend, grad.flat());
      });
  return result;
}

double difference(const TokenValues& a, const TokenValues& b) {
  double largest = 0;
  for (size_t s = 0; s < a.size(); ++s) {
    for (size_t i = 0; i < a[s].size(); ++i) {
      if (std::isnan(a[s][i]) && std::isnan(b[s][i])) continue;
      const double d = std::abs(a[s][i] - b[s][i]);
      largest = std::isnan(d) ? std::numeric_limits<double>::infinity() : std::max(largest, d);
    }
  }
  return largest;
}

double relative_difference(const std::vector<double>& a, const std::vector<double>& b) {
  if (a.size() != b.size()) return std::numeric_limits<double>::infinity();
  double difference = 0, norm = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    difference += (a[i] - b[i]) * (a[i] - b[i]);
    norm += b[i] * b[i];
  }
  return difference == 0 ? 0 : std::sqrt(difference / norm);
}

}  // namespace verlcpp::test
