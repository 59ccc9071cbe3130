#pragma once

#include <memory>
#include <string>

#include "config/tree.h"
#include "tensor/backend.h"

namespace verlcpp::app {

/// Makes of trainer.device=auto what this machine has: cuda when a GPU runs this build's kernels,
/// else cpu; its origin in the tree then says so. A dry run touches no device and leaves it. To be
/// called once, before the tree is bound and validated. Returns a line for the start-up banner
/// about auto and check, "" for other devices.
std::string choose_device(config::Node& resolved_tree, bool dry_run);

/// The backend that `device` (cuda, cpu or check) names, on the GPU of that number. DeviceError
/// when it cannot be had.
std::unique_ptr<Backend> make_backend(const std::string& device, int gpu);

}  // namespace verlcpp::app
