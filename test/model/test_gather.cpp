// Whole tensors on rank 0 from the shares of a pool on all TP ranks.

#include "cpu/cpu_backend.h"
#include "model/weights_io.h"
#include "parallel/thread_ranks.h"
#include "support/catch.h"
#include "tiny_model.h"

using namespace verlcpp;
using namespace verlcpp::model;

namespace {

using Tensors = std::map<std::string, std::vector<double>>;

/// Gathers random weights, the same at any layout; what each rank got.
std::vector<Tensors> gathered(const ModelConfig& config, int64_t world, int64_t tp) {
  std::vector<Tensors> by_rank(static_cast<size_t>(world));
  parallel::run_thread_ranks(
      {.world = world, .tp = tp},
      [&](const parallel::Topology& me, const parallel::RankCommunicators& comm) {
        cpu::CpuBackend backend;
        const ParameterLayout layout(config, me.sizes().pool(), {.size = tp, .rank = me.tp_rank()});
        const ParameterBuffer weights(backend, layout, DType::kFloat64, MemoryTag::kWeights);
        initialize(backend, weights, 7);
        by_rank[static_cast<size_t>(me.rank())] =
            gather_hf_tensors(backend, comm.world, weights, layout.share(me.pool_rank()));
      });
  return by_rank;
}

}  // namespace

TEST_CASE("the whole tensors come to rank 0, in pieces that end inside of tensors and of rows") {
  ModelConfig config = test::tiny_config("llama");  // untied: two large tensors
  config.vocab = kGatheredAtOnce / config.hidden + 1001;
  const Tensors want = gathered(config, 1, 1).front();
  REQUIRE(want.at("model.embed_tokens.weight").size() > static_cast<size_t>(kGatheredAtOnce));
  const auto [world, tp] = GENERATE(std::pair{3, 1}, std::pair{2, 2}, std::pair{4, 2});
  INFO(world << " ranks, TP " << tp);
  const std::vector<Tensors> got = gathered(config, world, tp);
  CHECK(got.front() == want);
  for (size_t rank = 1; rank < got.size(); ++rank) CHECK(got[rank].empty());
}
