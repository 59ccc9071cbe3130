#pragma once

#include <memory>

#include "tensor/backend.h"

namespace verlcpp::cuda {

/// The backend of one GPU. Throws DeviceError when there is none, or when the executable was built
/// without CUDA.
std::unique_ptr<Backend> make_backend(int device);

}  // namespace verlcpp::cuda
