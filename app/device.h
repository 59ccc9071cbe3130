#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "config/tree.h"
#include "cuda/runtime.h"
#include "parallel/rank_device.h"

namespace verlcpp::app {

/// Makes of trainer.device=auto what this machine has: cuda when a GPU runs this build's kernels,
/// else cpu; its origin in the tree then says so. A dry run touches no device and leaves it. To be
/// called once, before the tree is bound and validated. Returns a line for the start-up banner
/// about auto and check, "" for other devices.
std::string choose_device(config::Node& resolved_tree, bool dry_run);

/// "cpu", or the name of the first GPU.
std::string device_name(const std::string& device);

/// One rank's device, as `device` (cuda, cpu or check) names it, and its communicators. Without
/// `ranks_per_gpu` the ranks spread over the GPUs there are. DeviceError when it cannot be had.
/// Called by all ranks, each on its thread.
parallel::RankDevice make_device(const std::string& device, const parallel::Topology& topology,
                                 const parallel::RankCommunicators& host,
                                 std::optional<int64_t> ranks_per_gpu,
                                 const cuda::BackendOptions& options = {});

}  // namespace verlcpp::app
