// A draw that rounding decides is either token's; any other must be the reference's.

#include <cmath>

#include "base/error.h"
#include "cpu/op_cases.h"
#include "faulty_backend.h"
#include "support/catch.h"
#include "tensor/checked_backend.h"

using namespace verlcpp;
using namespace verlcpp::test;
using Catch::Matchers::ContainsSubstring;

namespace {

/// Draws from one row on a subject whose token is `picked`, with that token's log-prob. Returns the
/// message of the divergence, or "".
std::string draw(const std::vector<double>& logits, const SamplingOptions& options, int32_t picked,
                 double log_prob) {
  struct Picks final : cpu::CpuBackend {
    int32_t token = 0;
    float log_prob = 0;
    void sample(const Tensor& ids, const Tensor& out, const Tensor&, const Tensor&,
                const SamplingOptions&) override {
      *ids.as<int32_t>() = token;
      *out.as<float>() = log_prob;
    }
  };
  auto subject = std::make_unique<Picks>();
  subject->token = picked;
  subject->log_prob = static_cast<float>(log_prob);
  CheckedBackend backend(std::move(subject), std::make_unique<cpu::CpuBackend>());
  const OpRun run{backend, DType::kFloat32};
  const auto vocab = static_cast<int64_t>(logits.size());
  const Tensor ids = run.ints({-1}), out = run.poisoned({1});
  try {
    backend.sample(ids, out, run.from(logits, {1, vocab}), run.ints({0, 1, 2, 3}, {1, 4}), options);
  } catch (const DeviceError& e) {
    return e.what();
  }
  return "";
}

double log_softmax(const std::vector<double>& z, size_t token) {
  double sum = 0;
  for (const double v : z) sum += std::exp(v);
  return z[token] - std::log(sum);
}

}  // namespace

TEST_CASE("greedy: two logits closer than rounding are either's") {
  const SamplingOptions greedy{.temperature = 0};
  const std::vector<double> close{0.5, 1, 1.000001, -3};
  CHECK(draw(close, greedy, 2, log_softmax(close, 2)) == "");
  CHECK(draw(close, greedy, 1, log_softmax(close, 1)) == "");
  CHECK_THAT(draw(close, greedy, 0, log_softmax(close, 0)),
             ContainsSubstring("sample: ids (int32[1]) diverges in 1 of 1 elements, the first at "
                               "[0]: 0, by the reference 2"));
  // The log-prob is that of the subject's token.
  CHECK_THAT(draw(close, greedy, 1, log_softmax(close, 0)), ContainsSubstring("sample: log_prob"));
  CHECK_THAT(draw(close, greedy, 4, 0), ContainsSubstring("sample: ids"));
  CHECK_THAT(draw(close, greedy, -1, 0), ContainsSubstring("sample: ids"));
}

TEST_CASE("a token at the cut of top-k may be in or out") {
  const std::vector<double> z{40, 40.00001, 0};
  const SamplingOptions first_alone{.top_k = 1, .key = rng_key(1, RngPurpose::kSampling)};
  for (const size_t token : {0u, 1u}) {
    CHECK(draw(z, first_alone, static_cast<int32_t>(token), log_softmax(z, token)) == "");
  }
  CHECK_THAT(draw(z, first_alone, 2, log_softmax(z, 2)), ContainsSubstring("sample: ids"));
}

TEST_CASE("a token at the cut of top-p may be in or out") {
  const std::vector<double> z{2, 0, -3};
  const auto may_draw = [&](const SamplingOptions& options, size_t token) {
    return draw(z, options, static_cast<int32_t>(token), log_softmax(z, token)).empty();
  };
  // A draw whose noise is for token 1, wherever it may be drawn.
  SamplingOptions options;
  for (uint64_t seed = 0; !may_draw(options, 1) || seed == 0; ++seed) {
    options.key = rng_key(seed, RngPurpose::kSampling);
  }
  const double first = std::exp(log_softmax(z, 0));
  for (const double p : {first + 1e-7, first - 1e-7}) {
    options.top_p = p;
    CHECK(may_draw(options, 0));
    CHECK(may_draw(options, 1));
    CHECK(!may_draw(options, 2));
  }
  options.top_p = first + 0.01;
  CHECK(!may_draw(options, 0));
  CHECK(may_draw(options, 1));
  options.top_p = first - 0.01;
  CHECK(may_draw(options, 0));
  CHECK(!may_draw(options, 1));
}
