#include <cmath>
#include <set>

#include "cpu/cpu_backend.h"
#include "cpu/op_cases.h"
#include "support/catch.h"

using namespace verlcpp;
using namespace verlcpp::test;

namespace {

struct Drawn {
  std::vector<int32_t> ids;
  std::vector<double> log_prob;
};

/// Row r has counter {r, 5, 6, 7}.
Drawn draw(DType dtype, const std::vector<double>& logits, int64_t rows,
           const SamplingOptions& options) {
  cpu::CpuBackend backend;
  const OpRun run{backend, dtype};
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

std::vector<double> repeated(const std::vector<double>& row, int64_t rows) {
  std::vector<double> out;
  for (int64_t r = 0; r < rows; ++r) out.insert(out.end(), row.begin(), row.end());
  return out;
}

const PhiloxKey kKey = rng_key(11, RngPurpose::kSampling);
constexpr int64_t kRows = 2000;

/// The tokens that appear in 2000 draws from probabilities 0.2, 0.5, 0.3.
std::set<int32_t> support(double temperature, int64_t top_k, double top_p) {
  const std::vector<double> row{std::log(0.2), std::log(0.5), std::log(0.3)};
  const Drawn drawn =
      draw(DType::kFloat64, repeated(row, kRows), kRows, {temperature, top_k, top_p, kKey});
  return {drawn.ids.begin(), drawn.ids.end()};
}

}  // namespace

TEST_CASE("temperature 0 is greedy: the largest logit, the lower token of equals") {
  for (DType dtype : {DType::kFloat64, DType::kFloat32}) {
    const double log3 = std::log(3.0);
    const Drawn drawn = draw(dtype, {0, log3, log3, 0, 5, 0, 0, 0}, 2, {.temperature = 0});
    CHECK(drawn.ids == std::vector<int32_t>{1, 0});
    CHECK(drawn.log_prob[0] == Approx(std::log(3.0 / 8)).epsilon(1e-6));
  }
}

TEST_CASE("top-k keeps k tokens, equals by lower token, and top-p the shortest prefix") {
  using Set = std::set<int32_t>;
  CHECK(support(1, -1, 1) == Set{0, 1, 2});
  CHECK(support(1, 0, 1) == Set{0, 1, 2});
  CHECK(support(1, 9, 1) == Set{0, 1, 2});
  CHECK(support(1, 1, 1) == Set{1});
  CHECK(support(1, 2, 1) == Set{1, 2});
  CHECK(support(1, -1, 0.0) == Set{1});
  CHECK(support(1, -1, 0.49) == Set{1});
  CHECK(support(1, -1, 0.51) == Set{1, 2});
  CHECK(support(1, -1, 0.79) == Set{1, 2});
  CHECK(support(1, -1, 0.81) == Set{0, 1, 2});
  CHECK(support(1, 2, 0.6) == Set{1});  // 0.5 is 0.625 of what top-k left
  CHECK(support(1, 2, 0.63) == Set{1, 2});
  CHECK(support(0.5, -1, 0.6) == Set{1});  // 0.25 / 0.38 at temperature 1/2
  const Drawn ties = draw(DType::kFloat64, repeated({1, 2, 1, 1}, kRows), kRows,
                          {.temperature = 1, .top_k = 2, .top_p = 1, .key = kKey});
  CHECK(Set(ties.ids.begin(), ties.ids.end()) == Set{0, 1});
}

TEST_CASE("the draw is argmax of logit / temperature + the documented Gumbel noise") {
  const int64_t rows = 50, vocab = 13;
  const std::vector<double> logits = random_values(rows * vocab, 3);
  const SamplingOptions options{.temperature = 0.8, .top_k = -1, .top_p = 1, .key = kKey};
  const Drawn drawn = draw(DType::kFloat64, logits, rows, options);
  for (int64_t r = 0; r < rows; ++r) {
    const PhiloxCounter words = philox4x32({static_cast<uint32_t>(r), 5, 6, 7}, kKey);
    double best = -HUGE_VAL, sum = 0;
    int32_t token = -1;
    for (uint32_t v = 0; v < vocab; ++v) {
      const double z = logits[static_cast<size_t>(r * vocab + v)] / 0.8;
      const double u = uniform_open(philox4x32({v / 4, 0, 0, 0}, {words[0], words[1]})[v % 4]);
      sum += std::exp(z);
      if (z - std::log(-std::log(u)) > best) {
        best = z - std::log(-std::log(u));
        token = static_cast<int32_t>(v);
      }
    }
    CHECK(drawn.ids[static_cast<size_t>(r)] == token);
    const double z = logits[static_cast<size_t>(r * vocab + token)] / 0.8;
    CHECK(drawn.log_prob[static_cast<size_t>(r)] == Approx(z - std::log(sum)).epsilon(1e-12));
  }
}

TEST_CASE("draws follow the softmax at the temperature, within what top-k leaves") {
  constexpr int64_t kDraws = 20000;
  const std::vector<double> row{0.3, -1.0, 1.5, 0.0, 0.7, -0.4, 1.1};
  for (int64_t top_k : {7, 4}) {
    const SamplingOptions options{.temperature = 1.3, .top_k = top_k, .top_p = 1, .key = kKey};
    const Drawn drawn = draw(DType::kFloat32, repeated(row, kDraws), kDraws, options);
    std::vector<double> expected;
    double total = 0;
    for (double x : row) {
      const bool kept = top_k == 7 || x >= 0.3;
      expected.push_back(kept ? std::exp(x / 1.3) : 0.0);
      total += expected.back();
    }
    std::vector<double> seen(row.size(), 0.0);
    for (int32_t id : drawn.ids) seen.at(static_cast<size_t>(id)) += 1;
    double chi_square = 0;
    for (size_t v = 0; v < row.size(); ++v) {
      const double mean = expected[v] / total * kDraws;
      if (mean == 0) {
        CHECK(seen[v] == 0);
        continue;
      }
      chi_square += (seen[v] - mean) * (seen[v] - mean) / mean;
    }
    CHECK(chi_square < (top_k == 7 ? 22.5 : 16.3));  // 99.9 % of 6 and 3 degrees of freedom
  }
}

TEST_CASE("the log-prob of a draw is token_log_prob's, before top-k and top-p") {
  cpu::CpuBackend backend;
  for (DType dtype : {DType::kFloat64, DType::kFloat32}) {
    const OpRun run{backend, dtype};
    const int64_t rows = 20, vocab = 31;
    const std::vector<double> logits = random_values(rows * vocab, 9);
    const Drawn drawn = draw(dtype, logits, rows, {1.7, 5, 0.8, kKey});
    const Tensor log_prob = run.poisoned({rows}), rest = run.poisoned({rows});
    const Tensor stats = OpRun{backend, DType::kFloat64}.poisoned({1, rows, 4});
    backend.logit_stats(stats.view({rows, 4}), run.from(logits, {rows, vocab}), run.ints(drawn.ids),
                        run.filled(1.7, {rows}), 0);
    backend.token_log_prob(log_prob, rest, run.poisoned({rows}), stats);
    const std::vector<double> want = download(backend, log_prob);
    for (size_t r = 0; r < want.size(); ++r) {
      CHECK(drawn.log_prob[r] == Approx(want[r]).epsilon(dtype == DType::kFloat64 ? 1e-12 : 1e-6));
    }
  }
}
