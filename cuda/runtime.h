#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "cuda/attention_plan_key.h"
#include "parallel/rank_device.h"
#include "tensor/backend.h"
#include "tensor/memory.h"

namespace verlcpp::cuda {

/// What a rank's memory plan says it asks for at most (train::memory_plan), and how many ranks
/// share its card.
struct Reservation {
  MemoryBytes planned;
  int64_t ranks_per_gpu = 1;
  // Bytes free for each rank beside kForLibraries, before any rank took its own; 0: not known.
  int64_t share = 0;
};

struct BackendOptions {
  /// Results repeat bit for bit. All kernels do but cuDNN's attention backward, whose deterministic
  /// form needs more memory for long documents, and products of bfloat16, whose algorithm is chosen
  /// by time otherwise.
  bool deterministic = false;
  /// Where results need not repeat bit for bit.
  OwnLengthRule own_length = {};
  /// Backend::replay captures graphs; without, it runs its bodies as they are.
  bool graphs = true;
  /// K and V of a CP group travel by NCCL also where each GPU can read the others' memory.
  bool nccl_cp = false;
  /// Begins messages of this backend: "rank 3: ".
  std::string who = {};
  /// Memory is taken at once; without it grows as needed.
  std::optional<Reservation> reservation = {};
};

/// Makes the driver's contexts of GPUs 0..gpus-1, all at once, and looks whether each has room for
/// its ranks; the share of the fullest becomes reservation.share. DeviceError when there is no such
/// GPU, when it is too full, or when the executable was built without CUDA.
void expect_room(int64_t gpus, Reservation& reservation);

/// Opens the libraries that a run will need: cuDNN, NCCL. DeviceError when one is missing or too
/// old, or when the executable was built without CUDA.
void expect_libraries(bool cudnn, bool nccl);

/// The backend of one GPU. Throws DeviceError when there is none, or when the executable was built
/// without CUDA.
std::unique_ptr<Backend> make_backend(int device, const BackendOptions& options = {});

/// One rank's GPU, rank / ranks_per_gpu, and the communicators of its memory: NCCL's where every
/// rank has a GPU of its own, else copies between the device buffers of one process. Such copies
/// also carry K and V between GPUs that read each other's memory: they start earlier than NCCL's
/// transfers, are faster at every size measured, and leave the multiprocessors alone. Without
/// `ranks_per_gpu` the ranks spread evenly over the GPUs there are. A collective of all ranks.
parallel::RankDevice make_device(const parallel::Topology& topology,
                                 const parallel::RankCommunicators& host,
                                 std::optional<int64_t> ranks_per_gpu,
                                 const BackendOptions& options = {});

/// Whether GPU 0 can be had, with what a backend needs (cuDNN too if asked for), and runs a kernel
/// of this build. `why` becomes the reason for either answer, in a few words. Never throws
/// DeviceError.
bool usable(bool cudnn, std::string* why);

/// For reports: "name" of the GPU, "driver" and "runtime" (CUDA versions), "cublas" and "cudnn"
/// where they are found. Throws like make_backend.
std::map<std::string, std::string> describe_device(int device);

}  // namespace verlcpp::cuda
