// rollout::generate on one rank: prompts of one length, responses of one length, no end of
// sequence.

#include <chrono>

#include "base/error.h"
#include "base/rng.h"
#include "rig.h"
#include "rollout/generate.h"
#include "roofline.h"

namespace verlcpp::bench {
namespace {

using Clock = std::chrono::steady_clock;

struct Times {
  double prefill = 0, decode = 0;  // seconds
};

double seconds(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

/// generate calls back before each token: the first time before the prefill, the second before the
/// decoding.
Times generate_once(const train::Engine& engine, const model::ParameterBuffer& weights,
                    std::span<const rollout::Request> requests,
                    const rollout::GenerateOptions& options) {
  engine.backend.synchronize();
  const auto start = Clock::now();
  auto first_token = start;
  int64_t calls = 0;
  const auto before_token = [&] {
    if (++calls == 2) {
      engine.backend.synchronize();
      first_token = Clock::now();
    }
    return true;
  };
  const auto responses = rollout::generate(engine.backend, engine.transformer, weights, requests,
                                           options, before_token);
  engine.backend.synchronize();
  const auto end = Clock::now();
  for (const rollout::Response& r : responses.value()) {
    expects(static_cast<int64_t>(r.ids.size()) == options.max_response_length,
            "a response ended early");
  }
  return {seconds(start, first_token), seconds(first_token, end)};
}

std::vector<int32_t> random_prompts(const Options& options) {
  const PhiloxKey key = rng_key(7, RngPurpose::kSampling);
  std::vector<int32_t> ids(static_cast<size_t>(options.batch * options.prompt));
  for (size_t i = 0; i < ids.size(); ++i) {
    const uint32_t word = philox4x32({static_cast<uint32_t>(i), 0, 0, 1}, key)[0];
    ids[i] = static_cast<int32_t>(word % static_cast<uint64_t>(options.model.vocab));
  }
  return ids;
}

std::vector<Times> samples_of(const Options& options, const train::Engine& engine,
                              const model::ParameterBuffer& weights) {
  const std::vector<int32_t> ids = random_prompts(options);
  std::vector<rollout::Request> requests;
  const auto prompt = static_cast<size_t>(options.prompt);
  for (size_t i = 0; i < static_cast<size_t>(options.batch); ++i) {
    requests.push_back({.sample = static_cast<uint32_t>(i),
                        .response = 0,
                        .prompt_ids = std::span(ids).subspan(i * prompt, prompt)});
  }
  const rollout::GenerateOptions generate{
      .sampling = {.temperature = options.temperature, .key = rng_key(1, RngPurpose::kSampling)},
      .max_response_length = options.new_tokens,
      .max_num_seqs = options.batch,
      .eos_token_ids = {}};
  for (int64_t i = 0; i < options.warmup; ++i) generate_once(engine, weights, requests, generate);
  std::vector<Times> samples;
  for (int64_t i = 0; i < options.repeat; ++i) {
    samples.push_back(generate_once(engine, weights, requests, generate));
  }
  return samples;
}

}  // namespace

std::vector<Row> run_decode(const Options& options) {
  const int64_t steps = options.new_tokens - 1;
  Row whole{.name = "generate", .seconds = {}};
  Row prefill{.name = "  prefill and first token", .seconds = {}};
  Row step{.name = "  one decoding step", .seconds = {}};
  with_engine(options, [&](const train::Engine& engine) {
    const model::ParameterLayout layout(options.model, 1);
    const model::ParameterBuffer weights(engine.backend, layout, options.dtype,
                                         MemoryTag::kWeights);
    random_weights(engine.backend, weights, 1);
    engine.backend.reset_peak_bytes();
    for (const Times& t : samples_of(options, engine, weights)) {
      whole.seconds.push_back(t.prefill + t.decode);
      prefill.seconds.push_back(t.prefill);
      step.seconds.push_back(t.decode / static_cast<double>(steps));
    }
    whole.peak_bytes = engine.backend.peak_bytes().total;
  });
  whole.tokens = options.batch * options.new_tokens;
  const std::vector<int64_t> prompts(static_cast<size_t>(options.batch), options.prompt);
  prefill.tokens = options.batch * options.prompt;
  prefill.bound = Bound::kMatmul;
  prefill.flops = forward_flops(options.model, prompts, options.batch);
  step.tokens = options.batch;
  step.bound = Bound::kBandwidth;
  // Step i attends to prompt + i positions, i = 1..steps.
  step.bytes =
      decode_bytes(options.model, options.batch,
                   static_cast<double>(options.prompt) + (static_cast<double>(steps) + 1) / 2,
                   size_of(options.dtype));
  return {whole, prefill, step};
}

}  // namespace verlcpp::bench
