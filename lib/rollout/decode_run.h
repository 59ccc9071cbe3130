#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "rollout/admission.h"
#include "rollout/decode_batch.h"
#include "rollout/generate.h"

namespace verlcpp::rollout {

/// Prompts go through the model in packs of so many tokens, or one alone: enough for full speed,
/// while their activations stay small beside the KV cache.
inline constexpr int64_t kPrefillTokens = 16384;

/// One `generate`, step by step.
class DecodeRun {
 public:
  /// The options and requests must outlive it.
  DecodeRun(Backend& backend, const model::Transformer& transformer,
            const model::ParameterBuffer& weights, std::span<const Request> requests,
            const GenerateOptions& options);
  ~DecodeRun() { backend_.forget_replays(); }
  DecodeRun(const DecodeRun&) = delete;
  DecodeRun& operator=(const DecodeRun&) = delete;

  bool unfinished() const {
    return admission_.waiting() || !active_.empty() || !on_their_way_.empty();
  }
  /// Lets requests in, asks the device for one token of every active sequence, and takes in those
  /// of the step before.
  void step();
  std::vector<Response> take_responses() { return std::move(responses_); }

 private:
  /// The tokens of one step.
  struct Tokens {
    std::vector<size_t> requests;  // by row
    PendingRead ids, log_probs;
  };
  void prefill(const Preparation& preparation);
  void decode();
  void take_in(const Tokens& tokens);
  bool finished(size_t request) const;
  /// Those that need no further step make room.
  void leave();

  Backend& backend_;
  const model::Transformer& transformer_;
  const model::ParameterBuffer& weights_;
  std::span<const Request> requests_;
  const GenerateOptions& options_;
  DType statistics_;
  Admission admission_;
  model::KvCache cache_;
  DecodeBatch batch_;
  std::vector<Sequence> active_;
  bool changed_ = true;  // `active_`, since it was laid out
  std::deque<Tokens> on_their_way_;
  std::vector<Response> responses_;
};

}  // namespace verlcpp::rollout
