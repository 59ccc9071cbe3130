// Sampling on a GPU against the CPU.

#include <algorithm>
#include <cmath>

#include "base/rng.h"
#include "cpu/cpu_backend.h"
#include "cpu/op_cases.h"
#include "cuda/runtime.h"
#include "support/catch.h"

using namespace verlcpp;
using namespace verlcpp::test;

namespace {

struct Drawn {
  std::vector<int32_t> ids;
  std::vector<double> log_prob;
};

/// Row r has counter {r, 5, 6, 7}.
Drawn draw(Backend& backend, const std::vector<double>& logits, int64_t rows,
           const SamplingOptions& options) {
  const OpRun run{backend, DType::kFloat32};
  const int64_t vocab = static_cast<int64_t>(logits.size()) / rows;
  std::vector<int32_t> counters;
  for (int32_t r = 0; r < rows; ++r) counters.insert(counters.end(), {r, 5, 6, 7});
  const Tensor ids = run.ints(std::vector<int32_t>(static_cast<size_t>(rows), -1));
  const Tensor log_prob = run.poisoned({rows});
  backend.sample(ids, log_prob, run.from(logits, {rows, vocab}), run.ints(counters, {rows, 4}),
                 options);
  Drawn out{std::vector<int32_t>(static_cast<size_t>(rows)), download(backend, log_prob)};
  backend.read(std::as_writable_bytes(std::span(out.ids)), ids);
  return out;
}

/// Of the largest magnitude.
double largest_error(const std::vector<double>& got, const std::vector<double>& want) {
  REQUIRE(got.size() == want.size());
  double scale = 1e-30, error = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    if (!std::isfinite(got[i])) return HUGE_VAL;
    scale = std::max(scale, std::abs(want[i]));
    error = std::max(error, std::abs(got[i] - want[i]));
  }
  return error / scale;
}

}  // namespace

TEST_CASE("the GPU draws the CPU's tokens", "[small][own]") {
  const auto gpu = cuda::make_backend(0);
  cpu::CpuBackend cpu;
  const PhiloxKey key = rng_key(11, RngPurpose::kSampling);
  for (const int64_t vocab : {1, 31, 2053}) {
    const int64_t rows = 200;
    std::vector<double> logits = random_values(rows * vocab, 9);
    // Ties: every third row holds few values.
    for (int64_t i = 0; i < rows * vocab; ++i) {
      auto& z = logits[static_cast<size_t>(i)];
      if (i / vocab % 3 == 0) z = std::round(z);
    }
    for (const SamplingOptions& options :
         {SamplingOptions{0, -1, 1.0, key}, SamplingOptions{1.0, -1, 1.0, key},
          SamplingOptions{1.7, 5, 1.0, key}, SamplingOptions{0.6, -1, 0.8, key},
          SamplingOptions{1.0, 20, 0.5, key}}) {
      INFO(vocab << " tokens, temperature " << options.temperature << ", top_k " << options.top_k
                 << ", top_p " << options.top_p);
      const Drawn got = draw(*gpu, logits, rows, options), want = draw(cpu, logits, rows, options);
      CHECK(got.ids == want.ids);
      CHECK(largest_error(got.log_prob, want.log_prob) < 1e-5);
    }
  }
}

TEST_CASE("the GPU draws the CPU's tokens from vocabularies that several blocks share", "[own]") {
  const auto gpu = cuda::make_backend(0);
  cpu::CpuBackend cpu;
  const PhiloxKey key = rng_key(12, RngPurpose::kSampling);
  for (const auto& [rows, vocab] : {std::pair<int64_t, int64_t>{70, 40001}, {9, 151936}}) {
    std::vector<double> logits = random_values(rows * vocab, 10);
    for (int64_t i = 0; i < rows * vocab; ++i) {
      auto& z = logits[static_cast<size_t>(i)];
      const int64_t row = i / vocab;
      if (row % 3 == 0) z = std::round(4 * z);                // ties
      if (row % 3 == 1 && i % vocab % 5 != 2) z = -HUGE_VAL;  // most are ruled out
      if (row % 3 == 2) z *= 20;
    }
    for (const double temperature : {0.0, 0.3, 1.0, 3.0}) {
      INFO(vocab << " tokens, temperature " << temperature);
      const SamplingOptions options{.temperature = temperature, .key = key};
      const Drawn got = draw(*gpu, logits, rows, options), want = draw(cpu, logits, rows, options);
      CHECK(got.ids == want.ids);
      CHECK(largest_error(got.log_prob, want.log_prob) < 1e-5);
    }
  }
}

// What the first tokens of a part of a row say about the others, from which the GPU's order of work
// follows, is wrong here.
TEST_CASE("the GPU draws the CPU's tokens from logits of very different sizes", "[own]") {
  const auto gpu = cuda::make_backend(0);
  cpu::CpuBackend cpu;
  const int64_t rows = 180, vocab = 50000;  // in two parts
  std::vector<double> logits = random_values(rows * vocab, 13);
  for (int64_t i = 0; i < rows * vocab; ++i) {
    auto& z = logits[static_cast<size_t>(i)];
    const int64_t row = i / vocab % 9, token = i % vocab;
    if (row == 0 && token == 30001) z = 150;           // e^z overflows beside the others
    if (row == 1) z = token < 20000 ? -HUGE_VAL : z;   // parts without any token
    if (row == 2) z = token == 49999 ? 3 : -HUGE_VAL;  // one token
    if (row == 3) z += token < 30000 ? -500 : 500;     // two worlds
    if (row == 4) z = 1e4 + 3 * z;                     // coarse floats
    if (row == 5) z = -1e4 + 3 * z;
    if (row == 6) z = static_cast<double>(token) / 100;   // ever better
    if (row == 7) z = -static_cast<double>(token) / 100;  // ever worse
    if (row == 8) z = 0;
  }
  for (const double temperature : {0.0, 0.7, 1.0, 2.5}) {
    INFO("temperature " << temperature);
    const SamplingOptions options{.temperature = temperature,
                                  .key = rng_key(14, RngPurpose::kSampling)};
    const Drawn got = draw(*gpu, logits, rows, options), want = draw(cpu, logits, rows, options);
    CHECK(got.ids == want.ids);
    for (size_t r = 0; r < want.log_prob.size(); ++r) {
      INFO("row " << r);
      CHECK(std::abs(got.log_prob[r] - want.log_prob[r]) < 1e-4);
    }
  }
}

TEST_CASE("where logits are NaN or infinite the GPU draws the CPU's tokens", "[own]") {
  const auto gpu = cuda::make_backend(0);
  cpu::CpuBackend cpu;
  const int64_t rows = 3, vocab = 30000;
  std::vector<double> logits = random_values(rows * vocab, 15);
  const auto at = [&](int64_t row, int64_t token) -> double& {
    return logits[static_cast<size_t>(row * vocab + token)];
  };
  for (int64_t token = 0; token < vocab; token += 3) at(0, token) = std::nan("");
  at(1, 20000) = HUGE_VAL;
  for (int64_t token = 0; token < vocab; ++token) at(2, token) = std::nan("");
  const SamplingOptions options{.temperature = 1, .key = rng_key(16, RngPurpose::kSampling)};
  CHECK(draw(*gpu, logits, rows, options).ids == draw(cpu, logits, rows, options).ids);
}
