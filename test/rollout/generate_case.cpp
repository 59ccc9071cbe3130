#include "generate_case.h"

#include "base/rng.h"
#include "model/tiny_model.h"

namespace verlcpp::test {

Prompts::Prompts(const model::ModelConfig& config, const std::vector<int64_t>& lengths, uint32_t n)
    : ids(random_documents(config, lengths)) {
  for (uint32_t sample = 0; sample < ids.size(); ++sample) {
    for (uint32_t response = 0; response < n; ++response) {
      requests.push_back({sample, response, ids[sample]});
    }
  }
}

model::ModelConfig generate_config(const std::string& kind, int64_t head_dim) {
  model::ModelConfig config = tiny_config(kind);
  config.head_dim = head_dim;
  return config;
}

namespace {

/// tiny_model.h's random weights, rounded to bfloat16.
class Model {
 public:
  Model(Backend& backend, const model::ModelConfig& config, DType dtype)
      : layout_(config, 1),
        weights_(backend, layout_, dtype, MemoryTag::kWeights),
        transformer_(backend, config, dtype) {
    const model::ParameterBuffer rounded(backend, layout_, DType::kBFloat16, MemoryTag::kWeights);
    set_flat(backend, rounded, random_weights(layout_));
    set_flat(backend, weights_, download(backend, rounded.flat()));
  }
  const model::ParameterBuffer& weights() const { return weights_; }
  const model::Transformer& transformer() const { return transformer_; }

 private:
  model::ParameterLayout layout_;
  model::ParameterBuffer weights_;
  model::Transformer transformer_;
};

}  // namespace

std::vector<rollout::Response> generated(Backend& backend, const model::ModelConfig& config,
                                         DType dtype, const Prompts& prompts,
                                         const rollout::GenerateOptions& options) {
  const Model model(backend, config, dtype);
  return rollout::generate(backend, model.transformer(), model.weights(), prompts.requests, options,
                           [] { return true; })
      .value();
}

std::vector<rollout::Response> scored(Backend& backend, const model::ModelConfig& config,
                                      DType dtype, const Prompts& prompts,
                                      std::vector<rollout::Response> responses,
                                      double temperature) {
  const Model model(backend, config, dtype);
  const model::ContextParallelAttention attention(backend, nullptr);
  for (size_t i = 0; i < responses.size(); ++i) {
    const auto prompt = prompts.requests[i].prompt_ids;
    std::vector<int32_t> all(prompt.begin(), prompt.end()), rows;
    for (const int32_t id : responses[i].ids) {
      rows.push_back(static_cast<int32_t>(all.size()) - 1);
      all.push_back(id);
    }
    const Documents documents{all};
    const data::PackedBatch packed = data::pack(whole_group(1, documents), 0, 1, documents);
    const std::vector<double> temperatures(packed.token_ids.size(), temperature);
    const model::DeviceBatch batch =
        model.transformer().upload(packed, {{0}, 0}, rows, temperatures);
    responses[i].log_probs = download(
        backend, model.transformer().forward(model.weights(), batch, attention).log_prob_R);
  }
  return responses;
}

rollout::GenerateOptions sampled_options(double temperature, int64_t max_num_seqs) {
  return {.sampling = {.temperature = temperature, .key = rng_key(3, RngPurpose::kSampling)},
          .max_response_length = 90,
          .max_num_seqs = max_num_seqs,
          .eos_token_ids = {0, 1},
          .step = 5};
}

}  // namespace verlcpp::test
