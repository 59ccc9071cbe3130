// What is made ready before a run's first step is what the step's first plans compute.

#include <algorithm>

#include "layout_case.h"
#include "parallel/thread_ranks.h"
#include "support/catch.h"
#include "support/recording_backend.h"
#include "train/pipeline.h"
#include "train/update_pass.h"
#include "train/warm_up.h"

using namespace verlcpp;
using namespace verlcpp::train;
using test::RecordingBackend;

namespace {

struct Rank {
  RecordingBackend::Calls prepared, made;
};

/// One step after its warm-up.
void run_step(const Engine& engine, const TrainConfig& config) {
  const auto batch = test::recorded();
  const model::ParameterLayout layout(test::tiny_model(), engine.topology.sizes().pool(),
                                      engine.transformer.tp_place());
  const auto buffer = [&](MemoryTag tag) {
    return model::ParameterBuffer(engine.backend, layout, DType::kFloat64, tag);
  };
  const auto weights = buffer(MemoryTag::kWeights), reference = buffer(MemoryTag::kWeights);
  const auto grad = buffer(MemoryTag::kMainGrad);
  initialize(engine.backend, weights, 1);
  initialize(engine.backend, reference, 2);
  Optimizer optimizer(engine, layout, DType::kFloat64,
                      optimizer_options(config.actor_rollout_ref.actor));
  optimizer.take_master(weights);

  warm_up_attention(engine, config, batch, 0, false);
  const KlCtrlConfig& k = config.algorithm.kl_ctrl;
  algo::KlController kl(k.type, k.kl_coef, k.target_kl, k.horizon);
  PhaseTimer timer;
  const auto step = make_experience(engine, weights, &reference, config, batch, kl, timer);
  const UpdateOptions options = update_options(config);
  ScheduleStats stats;
  const auto samples = static_cast<int64_t>(batch.size());
  accumulate_gradient(engine, {weights, grad, optimizer}, step.value().experience,
                      mini_batches(samples, options, 0).front(), options,
                      make_planner(batching_rule(config, Pass::kActorUpdate)), stats);
}

std::vector<Rank> ranks_of(const TrainConfig& config) {
  const parallel::AxisSizes sizes = batching_rule(config, Pass::kActorUpdate).sizes;
  std::vector<Rank> ranks(static_cast<size_t>(sizes.world));
  parallel::run_thread_ranks(
      sizes, [&](const parallel::Topology& topology, const parallel::RankCommunicators& comm) {
        RecordingBackend backend;
        const model::Transformer transformer = make_transformer(
            backend, test::tiny_model(), DType::kFloat64, config.actor_rollout_ref, comm);
        run_step({backend, transformer, topology, comm}, config);
        ranks[static_cast<size_t>(topology.rank())] = {backend.prepared(), backend.made()};
      });
  return ranks;
}

}  // namespace

TEST_CASE("the first plan of every pass finds its attention ready") {
  using test::static_cp;
  for (const test::Layout& layout :
       {static_cp(1, 1, {}), static_cp(4, 2, test::micro_batches_of(2)),
        test::with_all_gather(static_cp(4, 4, {})), test::dynamic_cp(4, 2, 24),
        test::with_tp(test::dynamic_cp(2, 2, 24), 2, true)}) {
    const std::vector<Rank> ranks = ranks_of(test::make_config(layout.overrides, {}));
    for (size_t rank = 0; rank < ranks.size(); ++rank) {
      CAPTURE(layout.name, rank);
      CHECK(!ranks[rank].made.empty());
      CHECK(ranks[rank].prepared == ranks[rank].made);
    }
  }
}
