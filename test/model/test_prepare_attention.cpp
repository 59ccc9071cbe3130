// What prepare_attention foretells is what the transformer then asks of its backend.

#include <memory>

#include "model/tiny_model.h"
#include "support/catch.h"
#include "support/ranks.h"
#include "support/recording_backend.h"

namespace verlcpp::test {
namespace {

using Calls = RecordingBackend::Calls;

/// One rank's calls.
struct Rank {
  Calls prepared_forward, forward, prepared, all;
  int64_t real_rows = 0;
};

std::vector<Rank> run_group(int cp, int64_t tp, const Documents& documents,
                            const model::TransformerOptions& options) {
  const model::ModelConfig config = tiny_config("qwen3");
  std::vector<Rank> ranks(static_cast<size_t>(cp));
  run_ranks(cp, [&](int rank, parallel::Communicator& cp_group, parallel::Communicator&) {
    RecordingBackend backend;
    const model::ParameterLayout layout(config, 1);
    const model::ParameterBuffer weights(backend, layout, DType::kFloat64, MemoryTag::kWeights);
    const model::ParameterBuffer grad(backend, layout, DType::kFloat64, MemoryTag::kMainGrad);
    set_flat(backend, weights, random_weights(layout));
    const model::Transformer transformer(backend, config, DType::kFloat64, nullptr, options);
    const model::ContextParallelAttention attention(backend, &cp_group);
    const schedule::PlanGroup group = whole_group(cp, documents);
    const data::PackedBatch packed = data::pack(group, rank, tp, documents);
    Rank& mine = ranks[static_cast<size_t>(rank)];
    mine.real_rows = packed.real_rows();

    transformer.prepare_attention(packed, {group.ranks, rank}, false);
    mine.prepared_forward = backend.prepared();
    transformer.prepare_attention(packed, {group.ranks, rank}, true);
    mine.prepared = backend.prepared();

    const RankBatch batch(transformer, group, rank, tp, documents);
    transformer.forward(weights, batch.device(), attention);
    mine.forward = backend.made();
    transformer.train(weights, batch.device(), attention, {}, batch.token_loss(backend), grad);
    mine.all = backend.made();
  });
  return ranks;
}

}  // namespace

TEST_CASE("the attention that is prepared is the attention that is computed") {
  const std::vector<int64_t> lengths = GENERATE(values<std::vector<int64_t>>({
      {1, 17, 2, 40, 5, 8},  // single token, odd, shorter than 2 cp, long
      {1},                   // most ranks hold no real row
      {3},                   // no second chunks
      {24, 48},              // no padding for any CP size
  }));
  const auto type = GENERATE(model::CpCommType::kP2p, model::CpCommType::kAllGather);
  const Documents documents = random_documents(tiny_config("qwen3"), lengths);
  for (const int cp : {1, 2, 3, 4}) {
    for (const int64_t tp : {1, 2}) {
      const auto ranks = run_group(cp, tp, documents, {.cp_comm_type = type});
      for (size_t rank = 0; rank < ranks.size(); ++rank) {
        CAPTURE(lengths, type == model::CpCommType::kP2p, cp, tp, rank);
        CHECK(!ranks[rank].forward.empty());
        CHECK(ranks[rank].prepared_forward == ranks[rank].forward);
        CHECK(ranks[rank].prepared == ranks[rank].all);
        CHECK(ranks[rank].all.size() == 2 * ranks[rank].forward.size());
      }
      if (lengths.size() == 1 && lengths[0] == 1 && cp > 1) CHECK(ranks[1].real_rows == 0);
    }
  }
}

TEST_CASE("a batch without rows has no attention to prepare") {
  RecordingBackend backend;
  const model::Transformer transformer(backend, tiny_config("llama"), DType::kFloat64);
  const schedule::PlanGroup nothing{{0, 1}, {}};
  const data::PackedBatch packed = data::pack(nothing, 0, 1, {});
  CHECK(transformer.prepare_attention(packed, {nothing.ranks, 0}, true) == 0);
  CHECK(backend.prepared().empty());
}

}  // namespace verlcpp::test
