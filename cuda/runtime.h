#pragma once

#include <memory>

#include "tensor/backend.h"

namespace verlcpp::cuda {

struct BackendOptions {
  /// Gradients repeat bit for bit. All kernels do but cuDNN's attention backward, whose
  /// deterministic form needs more memory for long documents.
  bool deterministic = false;
};

/// The backend of one GPU. Throws DeviceError when there is none, or when the executable was built
/// without CUDA.
std::unique_ptr<Backend> make_backend(int device, const BackendOptions& options = {});

}  // namespace verlcpp::cuda
