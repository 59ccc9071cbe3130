#pragma once

#include <memory>
#include <string>

#include "tensor/backend.h"

namespace verlcpp::cuda {

/// The backend of one GPU. Throws DeviceError when there is none, or when the executable was built
/// without CUDA.
std::unique_ptr<Backend> make_backend(int device);

/// Whether GPU 0 can be had, with what a backend needs, and runs a kernel of this build. `why`
/// becomes the reason for either answer, in a few words. Never throws DeviceError.
bool usable(std::string* why);

}  // namespace verlcpp::cuda
