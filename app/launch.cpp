#include "app/launch.h"

#include <cstdlib>
#include <memory>
#include <string>

#include "base/error.h"
#include "base/log.h"
#include "cpu/cpu_backend.h"
#include "cuda/runtime.h"
#include "parallel/thread_ranks.h"
#include "train/recompute.h"
#include "train/trainer.h"

namespace verlcpp::app {
namespace {

/// All ranks of a run are threads of one process; a launcher that started several would run the
/// same job several times over.
void expect_one_process() {
  for (const char* name : {"SLURM_NTASKS", "OMPI_COMM_WORLD_SIZE", "WORLD_SIZE"}) {
    const char* value = std::getenv(name);
    if (value == nullptr || std::string(value) == "1") continue;
    throw ConfigError(std::string(name) + "=" + value +
                      ": this build hosts all ranks of a run in one process; start it once "
                      "(--ntasks=1), or unset the variable");
  }
}

std::unique_ptr<Backend> make_backend(const train::TrainConfig& config, int rank) {
  if (config.trainer.device == "cpu") return std::make_unique<cpu::CpuBackend>();
  return cuda::make_backend(rank);
}

}  // namespace

int run_training(const train::TrainConfig& config, const config::Node& tree,
                 std::chrono::steady_clock::time_point start) {
  expect_one_process();
  train::Report report(config, tree, start);
  const train::Inputs inputs = train::load_inputs(config);
  report.phase("inputs");
  const train::BatchingRule rule = train::batching_rule(config, train::Pass::kActorUpdate);
  const DType dtype = dtype_named(config.actor_rollout_ref.actor.megatron.dtype).value();
  parallel::run_thread_ranks(
      static_cast<int>(rule.sizes.world), [&](int rank, parallel::RankCommunicators comm) {
        const auto backend = make_backend(config, rank);
        const parallel::Topology topology(rule.sizes, rank);
        const model::Transformer transformer(*backend, inputs.model, dtype);
        const train::Engine engine{
            *backend, transformer, topology, comm,
            train::recompute_policy(config.actor_rollout_ref.actor.megatron, inputs.model.layers)};
        train::Trainer trainer(engine, config, inputs, rank == 0 ? &report : nullptr);
        trainer.run();
      });
  report.finish();
  return 0;
}

}  // namespace verlcpp::app
