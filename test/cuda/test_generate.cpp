// rollout::generate on a GPU against the CPU.

#include <algorithm>
#include <cmath>

#include "cpu/cpu_backend.h"
#include "cuda/runtime.h"
#include "rollout/generate_case.h"
#include "support/catch.h"

using namespace verlcpp;
using namespace verlcpp::test;

namespace {

const std::vector<int64_t> kLengths{1, 2, 64, 65, 66, 130, 7, 33, 20};

/// Responses whose tokens are not the other's, and the largest difference of a log-prob in those
/// whose are.
struct Difference {
  int64_t other_tokens = 0;
  double log_prob = 0;
};

Difference difference(const std::vector<rollout::Response>& a,
                      const std::vector<rollout::Response>& b) {
  REQUIRE(a.size() == b.size());
  Difference d;
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i].ids != b[i].ids) {
      ++d.other_tokens;
      continue;
    }
    for (size_t t = 0; t < a[i].log_probs.size(); ++t) {
      d.log_prob = std::max(d.log_prob, std::abs(a[i].log_probs[t] - b[i].log_probs[t]));
    }
  }
  return d;
}

}  // namespace

TEST_CASE("the GPU generates the CPU's tokens, whatever is decoded together, with graphs or not") {
  for (const int64_t head_dim : {6, 64}) {
    const model::ModelConfig config = generate_config(head_dim == 6 ? "qwen3" : "qwen2", head_dim);
    const Prompts prompts(config, kLengths, 4);
    for (const double temperature : {0.0, 1.5}) {
      cpu::CpuBackend cpu;
      const auto want =
          generated(cpu, config, DType::kFloat32, prompts, sampled_options(temperature, 100));
      for (const bool graphs : {true, false}) {
        const auto gpu = cuda::make_backend(0, {.graphs = graphs});
        for (const int64_t max_num_seqs : {1, 5, 100}) {
          INFO("head dim " << head_dim << ", temperature " << temperature << ", graphs " << graphs
                           << ", max_num_seqs " << max_num_seqs);
          const auto got = generated(*gpu, config, DType::kFloat32, prompts,
                                     sampled_options(temperature, max_num_seqs));
          const Difference d = difference(got, want);
          CHECK(d.other_tokens == 0);
          CHECK(d.log_prob < 1e-4);
        }
      }
    }
  }
}

// Tokens may differ from those of another dtype; their log-probs by a packed forward may not.
TEST_CASE("in bfloat16 on tensor cores a rollout's log-probs are those of a forward") {
  for (const int64_t head_dim : {64, 128}) {
    const model::ModelConfig config = generate_config("qwen2", head_dim);
    const Prompts prompts(config, kLengths, 4);
    const auto options = sampled_options(1.5, 20);
    const auto gpu = cuda::make_backend(0);
    const auto got = generated(*gpu, config, DType::kBFloat16, prompts, options);
    cpu::CpuBackend cpu;
    const auto want = scored(cpu, config, DType::kFloat32, prompts, got, 1.5);
    const Difference d = difference(got, want);
    INFO("head dim " << head_dim);
    CHECK(d.log_prob < 0.1);
    // Of products that choose their algorithm by time the last bits may differ.
    const auto graphs = cuda::make_backend(0, {.deterministic = true});
    const auto plain = cuda::make_backend(0, {.deterministic = true, .graphs = false});
    CHECK(difference(generated(*plain, config, DType::kBFloat16, prompts, options),
                     generated(*graphs, config, DType::kBFloat16, prompts, options))
              .other_tokens == 0);
  }
}
