#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "model/transformer.h"
#include "parallel/communicator.h"
#include "tensor/backend.h"

namespace verlcpp::rollout {

struct GenerateOptions {
  SamplingOptions sampling;  // temperature <= 0: greedy
  int64_t max_response_length = 1;
  int64_t max_num_seqs = 256;          // sequences decoded at one time on one rank
  std::vector<int32_t> eos_token_ids;  // any of them ends a response and belongs to it
  uint32_t step = 0;                   // first word of the sampling counter
};

/// One response to make. (step, sample, response, position) is the random counter of each token, so
/// a response does not depend on which rank makes it or what else is being decoded.
struct Request {
  uint32_t sample = 0;    // row of the data set
  uint32_t response = 0;  // 0..n-1
  std::span<const int32_t> prompt_ids;
};

struct Response {
  std::vector<int32_t> ids;
  std::vector<double> log_probs;  // of the sampled tokens, at the sampling temperature
};

/// Continuous batching over a KV cache: sequences leave as they finish and new ones enter. TP ranks
/// decode the same requests together. `before_token` runs before each forward; false stops: nothing
/// is returned.
std::optional<std::vector<Response>> generate(Backend& backend,
                                              const model::Transformer& transformer,
                                              const model::ParameterBuffer& weights,
                                              std::span<const Request> requests,
                                              const GenerateOptions& options,
                                              const std::function<bool()>& before_token);

/// Every coordinate of the pool generates its own requests (request i on pool rank i mod size) with
/// the training weights in place; all end with all responses, in request order. Nothing when a stop
/// was agreed on meanwhile, on all ranks alike.
std::optional<std::vector<Response>> generate_on_pool(Backend& backend,
                                                      const model::Transformer& transformer,
                                                      const model::ParameterBuffer& weights,
                                                      const parallel::RankCommunicators& comm,
                                                      std::span<const Request> requests,
                                                      const GenerateOptions& options);

}  // namespace verlcpp::rollout
