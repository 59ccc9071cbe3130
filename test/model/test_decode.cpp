#include <cmath>
#include <numeric>

#include "cpu/cpu_backend.h"
#include "model/tiny_model.h"
#include "model/transformer.h"
#include "support/catch.h"

namespace verlcpp::test {
namespace {

// A model, and the logits of every position of some documents from one packed forward.
class Decoder {
 public:
  Decoder(const std::string& kind, const std::vector<int64_t>& lengths)
      : config_(tiny_config(kind)),
        layout_(config_, 1),
        weights_(backend_, layout_, DType::kFloat64, MemoryTag::kWeights),
        transformer_(backend_, config_, DType::kFloat64),
        documents_(random_documents(config_, lengths)) {
    set_flat(backend_, weights_, random_weights(layout_));
    const data::PackedBatch packed = data::pack(whole_group(1, documents_), 0, 1, documents_);
    std::vector<int32_t> rows(packed.token_ids.size());
    std::iota(rows.begin(), rows.end(), 0);
    const std::vector<double> temperature(rows.size(), 1.0);
    const model::DeviceBatch batch = transformer_.upload(packed, {{0}, 0}, rows, temperature);
    const model::ContextParallelAttention attention(backend_, nullptr);
    packed_logits_ = download(backend_, transformer_.logits(weights_, batch, attention));
    offsets_ = packed.cu_seqlens_padded;
  }

  model::KvCache cache(int64_t slots, int64_t capacity) const {
    return transformer_.make_kv_cache(slots, capacity);
  }

  // Feeds the next count[i] tokens of document[i], which lives in slot[i], and compares the last
  // one's logits with the packed forward's.
  double extend(model::KvCache& cache, const std::vector<int32_t>& document,
                const std::vector<int32_t>& slot, const std::vector<int32_t>& past,
                const std::vector<int32_t>& count) {
    std::vector<int32_t> tokens;
    for (size_t i = 0; i < document.size(); ++i) {
      const auto& all = documents_[static_cast<size_t>(document[i])];
      tokens.insert(tokens.end(), all.begin() + past[i], all.begin() + past[i] + count[i]);
    }
    const Tensor logits = transformer_.extend(weights_, cache, tokens, slot, past, count);
    REQUIRE(logits.shape() == Shape{static_cast<int64_t>(slot.size()), config_.vocab});
    const std::vector<double> got = download(backend_, logits);
    double largest = 0;
    for (size_t i = 0; i < document.size(); ++i) {
      const int32_t row = offsets_[static_cast<size_t>(document[i])] + past[i] + count[i] - 1;
      for (int64_t v = 0; v < config_.vocab; ++v) {
        const double wanted = packed_logits_[static_cast<size_t>(row * config_.vocab + v)];
        const double difference =
            std::abs(got[i * static_cast<size_t>(config_.vocab) + static_cast<size_t>(v)] - wanted);
        if (!(difference <= largest)) largest = difference;
      }
    }
    return largest;
  }

 private:
  cpu::CpuBackend backend_;
  model::ModelConfig config_;
  model::ParameterLayout layout_;
  model::ParameterBuffer weights_;
  model::Transformer transformer_;
  Documents documents_;
  std::vector<double> packed_logits_;
  std::vector<int32_t> offsets_;
};

}  // namespace

TEST_CASE("packed prefill and batched decode give the packed forward's logits") {
  const std::string kind = GENERATE("qwen2", "qwen3", "llama");
  CAPTURE(kind);
  Decoder decoder(kind, {9, 6, 11});
  model::KvCache cache = decoder.cache(4, 11);
  // Three prompts of 3, 1 and 7 tokens, in slots out of order.
  CHECK(decoder.extend(cache, {0, 1, 2}, {3, 0, 1}, {0, 0, 0}, {3, 1, 7}) < 1e-11);
  for (int32_t i = 0; i < 4; ++i) {
    CHECK(decoder.extend(cache, {0, 1, 2}, {3, 0, 1}, {3 + i, 1 + i, 7 + i}, {1, 1, 1}) < 1e-11);
  }
  // Document 2 is finished; the others go on, in another order, one of them by several tokens.
  CHECK(decoder.extend(cache, {1, 0}, {0, 3}, {5, 7}, {1, 2}) < 1e-11);
}

TEST_CASE("a slot is used again for another sequence") {
  Decoder decoder("qwen3", {8, 5});
  model::KvCache cache = decoder.cache(1, 8);
  CHECK(decoder.extend(cache, {0}, {0}, {0}, {8}) < 1e-11);
  CHECK(decoder.extend(cache, {1}, {0}, {0}, {2}) < 1e-11);
  CHECK(decoder.extend(cache, {1}, {0}, {2}, {3}) < 1e-11);
}

TEST_CASE("a prompt in chunks equals a prompt at once") {
  Decoder decoder("qwen2", {10});
  model::KvCache cache = decoder.cache(2, 16);
  CHECK(decoder.extend(cache, {0}, {1}, {0}, {4}) < 1e-11);
  CHECK(decoder.extend(cache, {0}, {1}, {4}, {5}) < 1e-11);
  CHECK(decoder.extend(cache, {0}, {1}, {9}, {1}) < 1e-11);
}

TEST_CASE("extend refuses what does not fit its cache") {
  Decoder decoder("llama", {9, 9});
  model::KvCache cache = decoder.cache(2, 6);
  CHECK_THROWS_AS(decoder.extend(cache, {0}, {0}, {0}, {7}), std::logic_error);
  CHECK_THROWS_AS(decoder.extend(cache, {0}, {0}, {5}, {2}), std::logic_error);
  CHECK_THROWS_AS(decoder.extend(cache, {0}, {2}, {0}, {1}), std::logic_error);
  CHECK_THROWS_AS(decoder.extend(cache, {0, 1}, {1, 1}, {0, 0}, {1, 1}), std::logic_error);
}

}  // namespace verlcpp::test
