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

std::vector<rollout::Response> generated(Backend& backend, const model::ModelConfig& config,
                                         DType dtype, const Prompts& prompts,
                                         const rollout::GenerateOptions& options) {
  const model::ParameterLayout layout(config, 1);
  const model::ParameterBuffer rounded(backend, layout, DType::kBFloat16, MemoryTag::kWeights);
  const model::ParameterBuffer weights(backend, layout, dtype, MemoryTag::kWeights);
  set_flat(backend, rounded, random_weights(layout));
  set_flat(backend, weights, download(backend, rounded.flat()));
  const model::Transformer transformer(backend, config, dtype);
  return rollout::generate(backend, transformer, weights, prompts.requests, options,
                           [] { return true; })
      .value();
}

rollout::GenerateOptions sampled_options(double temperature, int64_t max_num_seqs) {
  return {.sampling = {.temperature = temperature, .key = rng_key(3, RngPurpose::kSampling)},
          .max_response_length = 90,
          .max_num_seqs = max_num_seqs,
          .eos_token_ids = {0, 1},
          .step = 5};
}

}  // namespace verlcpp::test
