#pragma once

#include <vector>

#include "model/parameters.h"
#include "model/transformer.h"
#include "rollout/generate.h"

// A small decoder and prompts to it, to generate on any backend.

namespace verlcpp::test {

/// Samples 0, 1, ..., each with a prompt of its length, and `n` responses to each.
struct Prompts {
  Prompts(const model::ModelConfig& config, const std::vector<int64_t>& lengths, uint32_t n);
  Prompts(const Prompts&) = delete;
  Prompts& operator=(const Prompts&) = delete;

  std::vector<std::vector<int32_t>> ids;
  std::vector<rollout::Request> requests;
};

/// tiny_config with a vocabulary small enough that some responses end early, and heads of
/// `head_dim`.
model::ModelConfig generate_config(const std::string& kind, int64_t head_dim);

/// Responses by the model with tiny_model.h's random weights, rounded to bfloat16 so that every
/// dtype has the same.
std::vector<rollout::Response> generated(Backend& backend, const model::ModelConfig& config,
                                         DType dtype, const Prompts& prompts,
                                         const rollout::GenerateOptions& options);

/// The same responses with the log-probs that packed forwards give their tokens.
std::vector<rollout::Response> scored(Backend& backend, const model::ModelConfig& config,
                                      DType dtype, const Prompts& prompts,
                                      std::vector<rollout::Response> responses, double temperature);

/// At most 90 tokens, of which 0 and 1 end a response.
rollout::GenerateOptions sampled_options(double temperature, int64_t max_num_seqs);

}  // namespace verlcpp::test
