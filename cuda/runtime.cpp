#include "cuda/runtime.h"

#include <cuda_runtime_api.h>

#include <exception>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "cuda/backend.h"
#include "cuda/check.h"
#include "cuda/memory_message.h"

namespace verlcpp::cuda {
namespace {

void expect_device(int64_t device) {
  int devices = 0;
  const cudaError_t status = cudaGetDeviceCount(&devices);
  if (status != cudaSuccess) {
    throw DeviceError(std::string("trainer.device=cuda: ") + cudaGetErrorString(status) +
                      "; trainer.device=cpu runs without a GPU");
  }
  if (device < devices) return;
  throw DeviceError("trainer.device=cuda: GPU " + std::to_string(device) +
                    " is needed, this machine has " + std::to_string(devices) +
                    "; set trainer.n_gpus_per_node, or let ranks share with "
                    "trainer.ranks_per_gpu");
}

void expect_room_on(int device, const Reservation& reservation) {
  const std::string gpu = "GPU " + std::to_string(device);
  check(cudaSetDevice(device), gpu);
  size_t free = 0, total = 0;
  check(cudaMemGetInfo(&free, &total), gpu + ", cudaMemGetInfo");
  const int64_t needed = reservation.planned.total;
  if (static_cast<int64_t>(free) / reservation.ranks_per_gpu >= needed) return;
  throw DeviceError(no_room_message(device, static_cast<int64_t>(free), static_cast<int64_t>(total),
                                    needed, reservation.ranks_per_gpu));
}

}  // namespace

void expect_room(int64_t gpus, const Reservation& reservation) {
  expect_device(gpus - 1);
  std::vector<std::exception_ptr> failures(static_cast<size_t>(gpus));
  {
    std::vector<std::jthread> threads;  // a context takes a good part of a second
    for (int device = 0; device < gpus; ++device) {
      threads.emplace_back([&, device] {
        try {
          expect_room_on(device, reservation);
        } catch (...) {
          failures[static_cast<size_t>(device)] = std::current_exception();
        }
      });
    }
  }
  for (const std::exception_ptr& failure : failures) {
    if (failure) std::rethrow_exception(failure);
  }
}

std::unique_ptr<Backend> make_backend(int device, const std::optional<Reservation>& reservation) {
  expect_device(device);
  return std::make_unique<CudaBackend>(device, reservation);
}

}  // namespace verlcpp::cuda
