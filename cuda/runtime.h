#pragma once

#include <map>
#include <memory>
#include <string>

#include "tensor/backend.h"

namespace verlcpp::cuda {

/// The backend of one GPU. Throws DeviceError when there is none, or when the executable was built
/// without CUDA.
std::unique_ptr<Backend> make_backend(int device);

/// For reports: "name" of the GPU, "driver" and "runtime" (CUDA versions), "cublas" and "cudnn"
/// where they are found. Throws like make_backend.
std::map<std::string, std::string> describe_device(int device);

}  // namespace verlcpp::cuda
