#pragma once

#include <atomic>
#include <chrono>
#include <exception>
#include <functional>
#include <optional>

#include "parallel/communicator.h"
#include "parallel/topology.h"

namespace verlcpp::parallel {

using RankBody = std::function<void(const Topology&, RankCommunicators)>;

struct ThreadRanksOptions {
  /// actor_rollout_ref.nccl_timeout: a rank that neither waits nor gives a sign of life
  /// (RankStatus) for longer ends the run, and so does a wait of all ranks for each other. Noticed
  /// at most a second later. Nothing: never.
  std::optional<std::chrono::milliseconds> silence_limit = {};
  /// After the first failure, how long its thread and the others may take to unwind.
  std::chrono::milliseconds grace{600};
  /// Called, on the calling thread, with the first failure when a thread has not come back after
  /// the grace; expected to end the process, since such a thread can neither be joined nor left
  /// alone with references to this call's objects. Without it, or if it returns, the call waits for
  /// all threads.
  std::function<void(std::exception_ptr)> give_up = {};
  /// What the ranks' StopPoints look at; null: they never stop. Set from outside, stays set.
  const std::atomic<bool>* stop = nullptr;
};

/// Runs `body(topology, communicators)` on sizes.world threads, one per rank, and watches over them
/// from the calling one. Returns when all are done. The first exception, or what the watch found
/// (DeviceError: a silent rank with its phase, micro-batch and collective, or a deadlock), aborts
/// the others and is rethrown. ConfigError when the world is not divisible by the axes.
void run_thread_ranks(const AxisSizes& sizes, const RankBody& body,
                      const ThreadRanksOptions& options = {});

}  // namespace verlcpp::parallel
