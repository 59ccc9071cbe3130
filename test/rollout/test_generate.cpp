// rollout::generate against one packed forward over everything so far for each token.

#include <algorithm>
#include <cmath>
#include <set>

#include "base/error.h"
#include "cpu/cpu_backend.h"
#include "generate_case.h"
#include "model/tiny_model.h"
#include "rollout/decode_batch.h"
#include "support/catch.h"

using namespace verlcpp;
using namespace verlcpp::test;

namespace {

const std::vector<int64_t> kLengths{1, 2, 64, 65, 66, 130, 7};

/// Holds the body of `replay` to ops and allocations.
class StrictBackend final : public cpu::CpuBackend {
 public:
  void replay(const std::string& key, const std::function<void()>& body) override {
    keys.insert(key);
    inside_ = true;
    body();
    inside_ = false;
  }
  void write(const Tensor& dst, std::span<const std::byte> src) override {
    expects(!inside_, "write in the body of a replay");
    CpuBackend::write(dst, src);
  }
  void read(std::span<std::byte> dst, const Tensor& src) override {
    expects(!inside_, "read in the body of a replay");
    CpuBackend::read(dst, src);
  }
  std::set<std::string> keys;

 private:
  bool inside_ = false;
};

/// One response by as many packed forwards as it has tokens.
rollout::Response by_forwards(const model::Transformer& transformer,
                              const model::ParameterBuffer& weights, Backend& backend,
                              const rollout::Request& request,
                              const rollout::GenerateOptions& options) {
  const model::ContextParallelAttention attention(backend, nullptr);
  rollout::Response response;
  std::vector<int32_t> all(request.prompt_ids.begin(), request.prompt_ids.end());
  while (static_cast<int64_t>(response.ids.size()) < options.max_response_length) {
    const Documents documents{all};
    const data::PackedBatch packed = data::pack(whole_group(1, documents), 0, 1, documents);
    const std::vector<double> temperature(packed.token_ids.size(), 1.0);
    const std::vector<int32_t> last{static_cast<int32_t>(all.size()) - 1};
    const Tensor logits = transformer.logits(
        weights, transformer.upload(packed, {{0}, 0}, last, temperature), attention);
    const std::vector<int32_t> counter{
        static_cast<int32_t>(options.step), static_cast<int32_t>(request.sample),
        static_cast<int32_t>(request.response), static_cast<int32_t>(response.ids.size())};
    const Tensor id = backend.allocate(DType::kInt32, {1}, MemoryTag::kWorkspace);
    const Tensor log_prob = backend.allocate(logits.dtype(), {1}, MemoryTag::kWorkspace);
    backend.sample(id, log_prob, logits,
                   upload<int32_t>(backend, counter, {1, 4}, MemoryTag::kWorkspace),
                   options.sampling);
    all.push_back(*id.as<int32_t>());
    response.ids.push_back(all.back());
    response.log_probs.push_back(download(backend, log_prob)[0]);
    if (std::count(options.eos_token_ids.begin(), options.eos_token_ids.end(), all.back())) break;
  }
  return response;
}

void check_equal(const std::vector<rollout::Response>& got,
                 const std::vector<rollout::Response>& want) {
  REQUIRE(got.size() == want.size());
  double largest = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    INFO("request " << i);
    CHECK(got[i].ids == want[i].ids);
    REQUIRE(got[i].log_probs.size() == want[i].log_probs.size());
    for (size_t t = 0; t < want[i].log_probs.size(); ++t) {
      largest = std::max(largest, std::abs(got[i].log_probs[t] - want[i].log_probs[t]));
    }
  }
  CHECK(largest < 1e-9);
}

}  // namespace

TEST_CASE("a response is that of one forward a token, whatever else is decoded") {
  const std::string kind = GENERATE("qwen2", "qwen3", "llama");
  const double temperature = GENERATE(0.0, 1.5);
  CAPTURE(kind, temperature);
  const model::ModelConfig config = generate_config(kind, 6);
  const Prompts prompts(config, kLengths, 3);
  StrictBackend backend;
  const model::ParameterLayout layout(config, 1);
  const model::ParameterBuffer weights(backend, layout, DType::kFloat64, MemoryTag::kWeights);
  set_flat(backend, weights, test::random_weights(layout));
  const model::Transformer transformer(backend, config, DType::kFloat64);
  rollout::GenerateOptions options = sampled_options(temperature, 0);
  std::vector<rollout::Response> want;
  for (const rollout::Request& r : prompts.requests) {
    want.push_back(by_forwards(transformer, weights, backend, r, options));
  }
  for (const int64_t max_num_seqs : {1, 4, 100}) {
    CAPTURE(max_num_seqs);
    options.max_num_seqs = max_num_seqs;
    const auto got = rollout::generate(backend, transformer, weights, prompts.requests, options,
                                       [] { return true; });
    check_equal(got.value(), want);
  }
  CHECK(backend.keys.count("decode 4") == 1);
  CHECK(backend.keys.count("decode 21") == 1);
  if (temperature == 0) return;
  std::set<size_t> lengths;
  std::set<std::vector<int32_t>> different;
  for (const rollout::Response& r : want) {
    lengths.insert(r.ids.size());
    different.insert(r.ids);
  }
  CHECK(lengths.size() > 3);  // they end at different times
  CHECK(different.size() > kLengths.size());
}

TEST_CASE("a rollout's log-probs are those of a packed forward over the whole") {
  const model::ModelConfig config = generate_config("qwen2", 64);
  const Prompts prompts(config, kLengths, 2);
  cpu::CpuBackend backend;
  const auto got = generated(backend, config, DType::kFloat64, prompts, sampled_options(1.5, 5));
  check_equal(got, scored(backend, config, DType::kFloat64, prompts, got, 1.5));
}

TEST_CASE("few sizes of a decoding step hold any number of sequences") {
  CHECK(rollout::bucket_of(1, 1000) == 8);
  CHECK(rollout::bucket_of(8, 1000) == 8);
  CHECK(rollout::bucket_of(9, 1000) == 12);
  CHECK(rollout::bucket_of(13, 1000) == 16);
  CHECK(rollout::bucket_of(193, 1000) == 256);
  CHECK(rollout::bucket_of(193, 200) == 200);
  CHECK(rollout::bucket_of(2, 3) == 3);
  std::set<int64_t> sizes;
  for (int64_t active = 1; active <= 1000; ++active) {
    const int64_t rows = rollout::bucket_of(active, 1000);
    CHECK(rows >= active);
    CHECK((rows <= 8 || 2 * rows < 3 * active + 2));
    sizes.insert(rows);
  }
  CHECK(sizes.size() == 15);
}

TEST_CASE("a stop between two tokens returns nothing") {
  const model::ModelConfig config = generate_config("llama", 6);
  const Prompts prompts(config, {3, 9}, 1);
  cpu::CpuBackend backend;
  const model::ParameterLayout layout(config, 1);
  const model::ParameterBuffer weights(backend, layout, DType::kFloat32, MemoryTag::kWeights);
  set_flat(backend, weights, test::random_weights(layout));
  const model::Transformer transformer(backend, config, DType::kFloat32);
  int calls = 0;
  const auto options = sampled_options(1, 2);
  CHECK_FALSE(rollout::generate(backend, transformer, weights, prompts.requests, options,
                                [&] { return ++calls < 3; }));
  CHECK(calls == 3);
  const auto none =
      rollout::generate(backend, transformer, weights, {}, options, [] { return false; });
  CHECK(none.value().empty());
}
