#pragma once

#include <chrono>
#include <optional>

#include "config/tree.h"
#include "cuda/runtime.h"
#include "parallel/rank_device.h"
#include "train/train_config.h"

namespace verlcpp::app {

/// From here on SIGTERM and SIGINT ask run_training to stop, whether it has begun or not: at once
/// before training, else after a save. A further one, of either kind, kills when it comes a second
/// or more after the first: sooner it is the first again, as from a launcher that signals both the
/// process and its group. Called first thing by a process that is going to train.
void catch_stop_signals();

/// ConfigError in one of several processes that a launcher has started: each would run the whole
/// job.
void expect_one_process();

/// The device of one rank, as trainer.device says. DeviceError when it cannot be had. With a
/// reservation a GPU's memory is taken at once; without, it is a measurement's, whose lengths come
/// again as a run's do not, so none gets attention plans of its own. Called by all ranks, each on
/// its thread.
parallel::RankDevice make_device(const train::TrainConfig& config,
                                 const parallel::Topology& topology,
                                 const parallel::RankCommunicators& host,
                                 const std::optional<cuda::Reservation>& reserved = {});

/// Runs the training job of a validated configuration: ranks on threads. The first failure, or a
/// rank silent for actor_rollout_ref.nccl_timeout, aborts the others; if a rank does not come back
/// from that, the process ends here (end_process). `start` is when the process began, for the
/// start-up times. Returns the exit code, 75 when a signal stopped it; errors come as exceptions.
int run_training(const train::TrainConfig& config, const config::Node& tree,
                 std::chrono::steady_clock::time_point start);

}  // namespace verlcpp::app
