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

  /// Document d gets blocks order[d], in this order, `per_document` each.
  model::KvCache cache(const std::vector<int32_t>& order, int32_t per_document) {
    tables_.assign(documents_.size() * static_cast<size_t>(per_document), 0);
    per_document_ = per_document;
    for (size_t d = 0; d < order.size(); ++d) {
      for (int32_t m = 0; m < per_document; ++m) {
        tables_[d * static_cast<size_t>(per_document) + static_cast<size_t>(m)] =
            order[d] + m * static_cast<int32_t>(order.size());
      }
    }
    return transformer_.make_kv_cache(static_cast<int64_t>(order.size()) * per_document);
  }

  /// The first count[i] tokens of document[i] into the cache.
  void prefill(const model::KvCache& cache, const std::vector<int32_t>& document,
               const std::vector<int32_t>& count) {
    std::vector<int32_t> tokens, rows;
    for (size_t i = 0; i < document.size(); ++i) {
      const auto& all = documents_[static_cast<size_t>(document[i])];
      tokens.insert(tokens.end(), all.begin(), all.begin() + count[i]);
      for (int32_t j = 0; j < count[i]; ++j) rows.push_back(row(document[i], j));
    }
    transformer_.prefill(weights_, cache, tokens, count, rows);
  }
  void copy(const model::KvCache& cache, const std::vector<int32_t>& from,
            const std::vector<int32_t>& to) {
    transformer_.copy_kv(cache, from, to);
  }
  int32_t row(int32_t document, int32_t position) const {
    return tables_[static_cast<size_t>(document * per_document_ + position / 64)] * 64 +
           position % 64;
  }

  /// Decodes token position[i] of document[i], -1: a row without a sequence. The largest difference
  /// of the logits from the packed forward's.
  double decode(const model::KvCache& cache, const std::vector<int32_t>& document,
                const std::vector<int32_t>& position) {
    std::vector<int32_t> ids, tables;
    for (size_t i = 0; i < document.size(); ++i) {
      const auto& all = documents_[static_cast<size_t>(document[i])];
      ids.push_back(position[i] < 0 ? 0 : all[static_cast<size_t>(position[i])]);
      for (int32_t m = 0; m < per_document_; ++m) {
        tables.push_back(tables_[static_cast<size_t>(document[i] * per_document_ + m)]);
      }
    }
    const auto b = static_cast<int64_t>(document.size());
    const auto up = [&](const std::vector<int32_t>& values, Shape shape) {
      return upload<int32_t>(backend_, values, std::move(shape), MemoryTag::kWorkspace);
    };
    const Tensor logits = transformer_.decode(
        weights_, cache, up(ids, {b}), {up(tables, {b, per_document_}), up(position, {b}), 64});
    REQUIRE(logits.shape() == Shape{b, config_.vocab});
    const std::vector<double> got = download(backend_, logits);
    double largest = 0;
    for (size_t i = 0; i < document.size(); ++i) {
      if (position[i] < 0) continue;
      const int32_t at = offsets_[static_cast<size_t>(document[i])] + position[i];
      for (int64_t v = 0; v < config_.vocab; ++v) {
        const double wanted = packed_logits_[static_cast<size_t>(at * config_.vocab + v)];
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
  std::vector<int32_t> offsets_, tables_;
  int32_t per_document_ = 0;
};

}  // namespace

TEST_CASE("packed prefill and batched decode give the packed forward's logits") {
  const std::string kind = GENERATE("qwen2", "qwen3", "llama");
  CAPTURE(kind);
  Decoder decoder(kind, {9, 6, 140});
  const model::KvCache cache = decoder.cache({2, 0, 1}, 3);
  // Prompts of 3 and 127 tokens and none; the last crosses into its third block.
  decoder.prefill(cache, {0, 2}, {3, 127});
  for (int32_t i = 0; i < 4; ++i) {
    CHECK(decoder.decode(cache, {0, 1, 2}, {3 + i, i, 127 + i}) < 1e-11);
  }
  // Document 2 is finished; the others go on, in another order, beside a row without a sequence.
  CHECK(decoder.decode(cache, {1, 2, 0}, {4, -1, 7}) < 1e-11);
}

TEST_CASE("rows of a cache that are copied serve another sequence") {
  Decoder decoder("qwen2", {10, 10});
  const model::KvCache cache = decoder.cache({1, 0}, 1);
  decoder.prefill(cache, {0}, {4});
  std::vector<int32_t> from, to;
  for (int32_t i = 0; i < 4; ++i) {
    from.push_back(decoder.row(0, i));
    to.push_back(i);
  }
  const model::KvCache other = decoder.cache({0, 1}, 1);
  decoder.copy(cache, from, to);  // document 0 now lives in block 0
  CHECK(decoder.decode(cache, {0}, {4}) < 1e-11);
}

TEST_CASE("the KV cache refuses what does not fit") {
  Decoder decoder("llama", {70});
  const model::KvCache cache = decoder.cache({0}, 1);
  CHECK_THROWS_AS(decoder.prefill(cache, {0}, {0}), std::logic_error);
  CHECK_THROWS_AS(decoder.copy(cache, {0}, {64}), std::logic_error);
  CHECK_THROWS_AS(decoder.decode(cache, {0}, {64}), std::logic_error);
}

}  // namespace verlcpp::test
