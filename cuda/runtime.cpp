#include "cuda/runtime.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <exception>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/error.h"
#include "cuda/backend.h"
#include "cuda/check.h"
#include "cuda/cudnn_library.h"
#include "cuda/memory_message.h"
#include "cuda/nccl_communicator.h"
#include "cuda/nccl_library.h"
#include "cuda/peer_communicator.h"

namespace verlcpp::cuda {
namespace {

/// The runtime calls a machine without a driver one whose driver is too old.
std::string why_no_device(cudaError_t status) {
  int driver = 0;
  if (status == cudaErrorInsufficientDriver && cudaDriverGetVersion(&driver) == cudaSuccess &&
      driver == 0) {
    return "there is no NVIDIA driver on this machine";
  }
  return cudaGetErrorString(status);
}

int device_count() {
  int devices = 0;
  const cudaError_t status = cudaGetDeviceCount(&devices);
  if (status != cudaSuccess) {
    throw DeviceError("no GPU can be used: " + why_no_device(status) +
                      "; trainer.device=cpu runs without one");
  }
  return devices;
}

void expect_device(int64_t device) {
  const int devices = device_count();
  if (device < devices) return;
  throw DeviceError("GPU " + std::to_string(device) + " is needed, this machine has " +
                    std::to_string(devices) +
                    "; set trainer.n_gpus_per_node, or let ranks share with "
                    "trainer.ranks_per_gpu");
}

/// The kernels are compiled for one architecture, and not as PTX for later ones.
void expect_kernels(int device) {
  constexpr int kMajor = 9, kMinor = 0;
  int major = 0, minor = 0;
  const std::string gpu = "GPU " + std::to_string(device);
  check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device), gpu);
  check(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device), gpu);
  if (major == kMajor && minor == kMinor) return;
  throw DeviceError(gpu + " has compute capability " + std::to_string(major) + "." +
                    std::to_string(minor) + "; this build runs on 9.0 (H100, H200)");
}

/// Bytes free for each rank, beside kForLibraries.
int64_t room_on(int device, const Reservation& reservation) {
  const std::string gpu = "GPU " + std::to_string(device);
  expect_kernels(device);
  check(cudaSetDevice(device), gpu);
  size_t free = 0, total = 0;
  check(cudaMemGetInfo(&free, &total), gpu + ", cudaMemGetInfo");
  const int64_t needed = reservation.planned.total;
  const int64_t share = (static_cast<int64_t>(free) - kForLibraries) / reservation.ranks_per_gpu;
  if (share >= needed) return share;
  throw DeviceError(no_room_message(device, static_cast<int64_t>(free), static_cast<int64_t>(total),
                                    reservation.planned, reservation.ranks_per_gpu));
}

/// Whether every rank passes true.
bool all_say(parallel::Communicator& world, bool mine) {
  const std::byte vote{mine};
  const auto votes = world.all_gather_bytes({&vote, 1});
  return std::ranges::all_of(votes,
                             [](const auto& other) { return other.front() == std::byte{1}; });
}

std::unique_ptr<CudaBackend> open(int device, const BackendOptions& options) {
  expect_device(device);
  expect_kernels(device);
  return std::make_unique<CudaBackend>(device, options);
}

}  // namespace

void expect_room(int64_t gpus, Reservation& reservation) {
  expect_device(gpus - 1);
  std::vector<std::exception_ptr> failures(static_cast<size_t>(gpus));
  std::vector<int64_t> shares(static_cast<size_t>(gpus));
  {
    std::vector<std::jthread> threads;  // a context takes a good part of a second
    for (int device = 0; device < gpus; ++device) {
      threads.emplace_back([&, device] {
        const auto at = static_cast<size_t>(device);
        try {
          shares[at] = room_on(device, reservation);
        } catch (...) {
          failures[at] = std::current_exception();
        }
      });
    }
  }
  for (const std::exception_ptr& failure : failures) {
    if (failure) std::rethrow_exception(failure);
  }
  reservation.share = *std::min_element(shares.begin(), shares.end());
}

void expect_libraries(bool cudnn, bool with_nccl) {
  if (cudnn) open_cudnn();
  if (with_nccl) nccl();
}

std::unique_ptr<Backend> make_backend(int device, const BackendOptions& options) {
  return open(device, options);
}

parallel::RankDevice make_device(const parallel::Topology& topology,
                                 const parallel::RankCommunicators& host,
                                 std::optional<int64_t> ranks_per_gpu,
                                 const BackendOptions& options) {
  const int64_t world = topology.sizes().world, devices = device_count();
  const int64_t sharing = ranks_per_gpu.value_or((world + devices - 1) / devices);
  BackendOptions mine = options;
  if (world > 1) mine.who = "rank " + std::to_string(topology.rank()) + ": ";
  auto backend = open(static_cast<int>(topology.rank() / sharing), mine);
  std::vector<std::unique_ptr<parallel::Communicator>> owned;
  // Only this run's GPUs: access makes a context on each.
  const bool direct =
      enable_peer_access(backend->device(), static_cast<int>((world + sharing - 1) / sharing));
  if (sharing == 1 && world > 1) {
    // One answer for all: ranks that reach each other need not all reach the same.
    const bool nccl_cp = options.nccl_cp || !all_say(host.world, direct);
    owned = make_nccl_communicators(*backend, topology, host, nccl_cp);
    if (!nccl_cp) owned[0] = make_peer_communicator(*backend, host.cp, host.status);
  } else {
    for (parallel::Communicator* group : {&host.cp, &host.grad, &host.tp, &host.world}) {
      owned.push_back(make_peer_communicator(*backend, *group, host.status));
    }
  }
  const parallel::RankCommunicators comm{.cp = *owned[0],
                                         .grad = *owned[1],
                                         .tp = *owned[2],
                                         .world = *owned[3],
                                         .status = host.status,
                                         .world_stop = host.world_stop,
                                         .tp_stop = host.tp_stop};
  return {std::move(backend), std::move(owned), comm};
}

bool usable(bool cudnn, std::string* why) {
  int devices = 0;
  const cudaError_t status = cudaGetDeviceCount(&devices);
  if (status != cudaSuccess) {
    *why = why_no_device(status);
    return false;
  }
  try {
    expect_libraries(cudnn, false);
    const auto backend = make_backend(0);
    const Tensor from = backend->allocate(DType::kFloat32, {1}, MemoryTag::kWorkspace);
    backend->fill_zero(from);
    // A conversion is a kernel: a GPU of another architecture than the build's refuses it.
    backend->copy(backend->allocate(DType::kBFloat16, {1}, MemoryTag::kWorkspace), from);
    backend->synchronize();
  } catch (const DeviceError& error) {
    *why = error.what();
    return false;
  }
  *why = "this machine has " + std::to_string(devices) + (devices == 1 ? " GPU" : " GPUs");
  return true;
}

}  // namespace verlcpp::cuda
