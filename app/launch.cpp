#include "app/launch.h"

#include <signal.h>

#include <atomic>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <ctime>
#include <exception>
#include <memory>
#include <optional>
#include <string>

#include "app/device.h"
#include "app/failure.h"
#include "base/error.h"
#include "base/log.h"
#include "parallel/thread_ranks.h"
#include "tensor/cuda_limits.h"
#include "train/checkpoint_lock.h"
#include "train/memory_plan.h"
#include "train/recompute.h"
#include "train/stop_notice.h"
#include "train/trainer.h"
#include "train/validate_findings.h"

namespace verlcpp::app {

// All ranks of a run are threads of one process; a launcher that started several would run the
// same job several times over.
void expect_one_process() {
  for (const char* name : {"SLURM_NTASKS", "OMPI_COMM_WORLD_SIZE", "WORLD_SIZE"}) {
    const char* value = std::getenv(name);
    if (value == nullptr || std::string(value) == "1") continue;
    throw ConfigError(std::string(name) + "=" + value +
                      ": this build hosts all ranks of a run in one process; start it once "
                      "(--ntasks=1), or unset the variable");
  }
}

parallel::RankDevice make_device(const train::TrainConfig& config,
                                 const parallel::Topology& topology,
                                 const parallel::RankCommunicators& host,
                                 const std::optional<cuda::Reservation>& reserved) {
  return make_device(config.trainer.device, topology, host, config.trainer.ranks_per_gpu,
                     {.deterministic = train::deterministic(config),
                      .own_length = reserved ? cuda::OwnLengthRule() : cuda::OwnLengthRule::never(),
                      .reservation = reserved});
}

namespace {

constexpr int kStoppedBySignal = 75;  // a batch system may requeue

// A signal handler can reach nothing else.
std::atomic<bool> stop_requested{false};
std::atomic<int> stop_signal{0};       // the one that asked for it
std::atomic<int64_t> first_signal{0};  // its moment in milliseconds, monotonic

/// One who signals again after this long means it; a launcher that signals a process and its group
/// is done much sooner.
constexpr int64_t kPatienceMilliseconds = 1000;

/// One rank's part of the run, on its thread. False when it was stopped.
bool train_rank(const train::TrainConfig& config, const train::Inputs& inputs,
                const std::optional<cuda::Reservation>& reserved, train::Report* report,
                const parallel::Topology& topology, const parallel::RankCommunicators& host) {
  const parallel::RankDevice device = make_device(config, topology, host, reserved);
  const parallel::RankCommunicators& comm = device.comm;
  const DType dtype = dtype_named(config.actor_rollout_ref.actor.megatron.dtype).value();
  const model::Transformer transformer =
      train::make_transformer(*device.backend, inputs.model, dtype, config.actor_rollout_ref, comm);
  const train::Engine engine{
      *device.backend, transformer, topology, comm,
      train::recompute_policy(config.actor_rollout_ref.actor.megatron, inputs.model.layers)};
  if (report != nullptr) report->phase("device");
  comm.status.enter("weights");
  train::Trainer trainer(engine, config, inputs, report, stop_signal);
  if (comm.world_stop.here()) throw train::StoppedAtStart();
  return trainer.run();
}

/// A stop before training began: there is nothing to save.
int stopped_at_start() {
  log::info("stopped by " + train::signal_name(stop_signal) + " before training began");
  return kStoppedBySignal;
}

void throw_if_stopped() {
  if (stop_requested.load()) throw train::StoppedAtStart();
}

bool is_stop(const std::exception_ptr& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const train::StoppedAtStart&) {
    return true;
  } catch (...) {
    return false;
  }
}

/// True when a signal stopped the run. `lock` is released if the process has to end here.
bool train_on_threads(const train::TrainConfig& config, const train::Inputs& inputs,
                      train::Report& report, std::optional<train::CheckpointLock>& lock) {
  std::optional<cuda::Reservation> reserved;
  // Before any rank starts, so that a card that is full, or anything that is missing, is said once.
  if (config.trainer.device != "cpu") {
    const train::ActorConfig& actor = config.actor_rollout_ref.actor;
    reserved = {.planned = train::memory_plan(inputs.model, config).peak(),
                .ranks_per_gpu = config.trainer.ranks_per_gpu};
    cuda::expect_room(config.trainer.n_gpus_per_node, *reserved);
    cuda::expect_libraries(
        cudnn_attends(dtype_named(actor.megatron.dtype).value(), inputs.model.head_dim),
        config.world_size() > 1 && config.trainer.ranks_per_gpu == 1);
  }
  bool stopped = false;  // written by rank 0 alone
  parallel::run_thread_ranks(
      train::batching_rule(config, train::Pass::kActorUpdate).sizes,
      [&](const parallel::Topology& topology, parallel::RankCommunicators comm) {
        const bool first = topology.rank() == 0;
        const bool done =
            train_rank(config, inputs, reserved, first ? &report : nullptr, topology, comm);
        if (first) stopped = !done;
      },
      {.silence_limit = std::chrono::seconds(config.actor_rollout_ref.nccl_timeout),
       .give_up =
           [&](const std::exception_ptr& failure) {
             if (!is_stop(failure)) end_process(failure);
             // A rank still reads a large tensor; nothing has been written.
             lock.reset();
             std::_Exit(kStoppedBySignal);
           },
       .stop = &stop_requested});
  return stopped;
}

/// Runs in a signal handler: atomics, clock_gettime, signal and raise are all it may call.
void on_stop_signal(int signal) {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  const int64_t milliseconds = int64_t{now.tv_sec} * 1000 + now.tv_nsec / 1000000;
  int64_t first = 0;
  if (first_signal.compare_exchange_strong(first, milliseconds)) {
    stop_signal.store(signal);
    stop_requested.store(true);
  } else if (milliseconds - first >= kPatienceMilliseconds) {
    std::signal(signal, SIG_DFL);
    std::raise(signal);
  }
}

}  // namespace

// SA_RESTART: writes to a pipe under way are not to fail for it.
void catch_stop_signals() {
  struct sigaction action = {};
  action.sa_handler = on_stop_signal;
  action.sa_flags = SA_RESTART;
  sigaction(SIGTERM, &action, nullptr);
  sigaction(SIGINT, &action, nullptr);
}

int run_training(const train::TrainConfig& config, const config::Node& tree,
                 std::chrono::steady_clock::time_point start) {
  expect_one_process();
  if (stop_requested.load()) return stopped_at_start();
  std::optional<train::CheckpointLock> lock;  // before anything is read: that may take long
  if (config.trainer.saves()) {
    const train::Findings findings(tree);
    lock.emplace(config.trainer.default_local_dir, findings.about("trainer.default_local_dir"));
  }
  try {
    train::Report report(config, tree, start);
    const train::Inputs inputs = train::load_inputs(config, tree, throw_if_stopped);
    report.phase("inputs");
    throw_if_stopped();
    const bool stopped = train_on_threads(config, inputs, report, lock);
    report.finish(stopped ? train::signal_name(stop_signal) : "");
    return stopped ? kStoppedBySignal : 0;
  } catch (const train::StoppedAtStart&) {
    return stopped_at_start();
  }
}

}  // namespace verlcpp::app
