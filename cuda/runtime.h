#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "tensor/backend.h"

namespace verlcpp::cuda {

/// What a rank's memory plan says it asks for at most (train::memory_plan), and how many ranks
/// share its card.
struct Reservation {
  MemoryBytes planned;
  int64_t ranks_per_gpu = 1;
};

/// Makes the driver's contexts of GPUs 0..gpus-1, all at once, and looks whether each has room for
/// its ranks. DeviceError when there is no such GPU, when it is too full, or when the executable
/// was built without CUDA.
void expect_room(int64_t gpus, const Reservation& reservation);

/// The backend of one GPU. With a reservation its memory is taken at once; without it grows as
/// needed. Throws DeviceError when there is none, or when the executable was built without CUDA.
std::unique_ptr<Backend> make_backend(int device,
                                      const std::optional<Reservation>& reservation = {});

}  // namespace verlcpp::cuda
