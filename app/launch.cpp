#include "app/launch.h"

#include <signal.h>

#include <atomic>
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

constexpr int kStoppedBySignal = 75;  // after a save; a batch system may requeue

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

std::atomic<bool> stop_requested{false};  // a signal handler can reach nothing else

/// SIGTERM and SIGINT end the run after the step under way; a second one kills it.
void catch_stop_signals() {
  struct sigaction action = {};
  action.sa_handler = [](int) { stop_requested.store(true); };
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  sigaction(SIGTERM, &action, nullptr);
  sigaction(SIGINT, &action, nullptr);
}

std::unique_ptr<Backend> make_backend(const train::TrainConfig& config, int rank) {
  if (config.trainer.device == "cpu") return std::make_unique<cpu::CpuBackend>();
  return cuda::make_backend(rank);
}

}  // namespace

int run_training(const train::TrainConfig& config, const config::Node& tree,
                 std::chrono::steady_clock::time_point start) {
  expect_one_process();
  catch_stop_signals();
  train::Report report(config, tree, start);
  const train::Inputs inputs = train::load_inputs(config);
  report.phase("inputs");
  const train::BatchingRule rule = train::batching_rule(config, train::Pass::kActorUpdate);
  const DType dtype = dtype_named(config.actor_rollout_ref.actor.megatron.dtype).value();
  bool stopped = false;  // written by rank 0 alone
  parallel::run_thread_ranks(
      rule.sizes,
      [&](const parallel::Topology& topology, parallel::RankCommunicators comm) {
        const auto rank = static_cast<int>(topology.rank());
        const auto backend = make_backend(config, rank);
        const model::Transformer transformer(*backend, inputs.model, dtype);
        const train::Engine engine{
            *backend, transformer, topology, comm,
            train::recompute_policy(config.actor_rollout_ref.actor.megatron, inputs.model.layers)};
        train::Trainer trainer(engine, config, inputs, rank == 0 ? &report : nullptr,
                               stop_requested);
        if (!trainer.run() && rank == 0) stopped = true;
      },
      {.stop = &stop_requested});
  report.finish(stopped);
  return stopped ? kStoppedBySignal : 0;
}

}  // namespace verlcpp::app
