#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "model/transformer.h"
#include "parallel/communicator.h"
#include "rollout/request.h"
#include "tensor/backend.h"

namespace verlcpp::rollout {

struct GenerateOptions {
  SamplingOptions sampling;  // temperature <= 0: greedy
  int64_t max_response_length = 1;
  int64_t max_num_seqs = 256;          // sequences decoded at one time on one rank
  std::vector<int32_t> eos_token_ids;  // any of them ends a response and belongs to it
  uint32_t step = 0;                   // first word of the sampling counter
};

/// Continuous batching over a paged KV cache: sequences leave as they finish and new ones enter,
/// their prompts prefilled between decoding steps. The host learns tokens one step late, so that a
/// step is on its way to the device while the last one runs: what a sequence makes beyond its end
/// is dropped. TP ranks decode the same requests together. `before_token` runs before each step;
/// false stops: nothing is returned.
std::optional<std::vector<Response>> generate(Backend& backend,
                                              const model::Transformer& transformer,
                                              const model::ParameterBuffer& weights,
                                              std::span<const Request> requests,
                                              const GenerateOptions& options,
                                              const std::function<bool()>& before_token);

/// Every coordinate of the pool generates its own requests (pool rank r of n: from r/n to (r + 1)/n
/// of the list, so that most responses to a prompt meet on one) with the training weights in place;
/// all end with all responses, in request order. Nothing when a stop
/// was agreed on meanwhile, on all ranks alike.
std::optional<std::vector<Response>> generate_on_pool(Backend& backend,
                                                      const model::Transformer& transformer,
                                                      const model::ParameterBuffer& weights,
                                                      const parallel::RankCommunicators& comm,
                                                      std::span<const Request> requests,
                                                      const GenerateOptions& options);

}  // namespace verlcpp::rollout
